// SPDX-License-Identifier: Apache-2.0
// Estimates as whole numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace memprofd {

// Each value rounded down or up such that their sum is the rounded sum of the
// values: up are those with the largest fractions (largest remainder method). So
// each is less than 1 off and the sum at most 0.5. Values that are negative or
// not finite count as 0, those of 2^53 and more as 2^53.
std::vector<std::int64_t> round_keeping_sum(const std::vector<double>& values);

}  // namespace memprofd
