// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/reading_order.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

TEST(ReadingOrder, BeginsWithTheApplicationWhereverItIsLinked) {
  const std::vector<ModuleBlocks::Module> modules = {
      {.name = "Lwt", .author = CodeAuthor::kPackage},
      {.name = "Stdlib", .author = CodeAuthor::kLibrary},
      {.name = "Cache", .author = CodeAuthor::kApplication},
      {.name = "Unix", .author = CodeAuthor::kPackage},
      {.name = "Main", .author = CodeAuthor::kApplication}};
  EXPECT_EQ(reading_order(modules), (std::vector<std::size_t>{2, 4, 0, 3, 1}));
}

}  // namespace
}  // namespace memprofd
