// SPDX-License-Identifier: Apache-2.0
// Rounds estimates to whole numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace memprofd {

// Rounds each value up or down so that their sum is the rounded sum of the values: those with the
// largest fractions are rounded up (largest remainder method). Each is less than 1 off, and the sum
// at most 0.5. Negative and non-finite values count as 0, values of 2^53 and more as 2^53.
std::vector<std::int64_t> round_keeping_sum(const std::vector<double>& values);

}  // namespace memprofd
