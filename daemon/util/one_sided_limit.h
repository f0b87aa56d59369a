// SPDX-License-Identifier: Apache-2.0
// Limits of an estimate on one side, at any probability (estimate.cc, where the 95 % intervals
// are). The truth is beyond them at most as often as stated.
#pragma once

namespace memprofd {

// quantile: of the normal distribution; 3.09 for 999 in 1000. standard_error and grain (estimate.h)
// in the value's unit. Without an error the value itself.
double lower_limit_of(double value, double standard_error, double grain, double quantile);
// The same above it. Where nothing was sampled, a few grains may still have been there.
double upper_limit_of(double value, double standard_error, double grain, double quantile);

}  // namespace memprofd
