// SPDX-License-Identifier: Apache-2.0
// Compares with the files of tests/golden byte by byte. UPDATE_GOLDEN=1 in the environment rewrites
// them instead.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace memprofd::testing {

inline void expect_golden(const std::string& name, const std::string& actual) {
  const std::string path = "tests/golden/" + name;
  if (const char* update = std::getenv("UPDATE_GOLDEN"); update != nullptr && *update == '1') {
    std::ofstream(path, std::ios::binary) << actual;
  }
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in) << path << " is missing: run in the root of the repository, with "
                  << "UPDATE_GOLDEN=1 to create it";
  const std::string expected{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  EXPECT_EQ(expected, actual) << path << " differs; UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace memprofd::testing
