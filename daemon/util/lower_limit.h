// SPDX-License-Identifier: Apache-2.0
// The lower limit of an estimate at any probability (in estimate.cc, next to the limits of 95 %).
#pragma once

namespace memprofd {

// quantile: of the normal distribution; 3.09 for 999 of 1000 cases. standard_error and grain
// (estimate.h) are in the value's unit. Returns the value itself if there is no error. The limit
// exceeds the true value at most as often as stated.
double lower_limit_of(double value, double standard_error, double grain, double quantile);

}  // namespace memprofd
