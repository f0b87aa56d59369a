// SPDX-License-Identifier: Apache-2.0
// The lower limit of an estimate at any probability (estimate.cc, where the limits of 95 % are).
#pragma once

namespace memprofd {

// quantile: of the normal distribution; 3.09 for 999 in 1000. standard_error and grain (estimate.h)
// in the value's unit. Without an error the value itself. It is above the truth at most as often as
// stated.
double lower_limit_of(double value, double standard_error, double grain, double quantile);

}  // namespace memprofd
