// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/census_store.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/snapshot/answers/shortest_paths.h"
#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

ShortCensus census_at(std::int64_t unix_ns, std::uint32_t pid, std::string name = "string") {
  ShortCensus census;
  census.info.pid = pid;
  census.info.unix_ns = unix_ns;
  census.classes = {{std::move(name), {.blocks = 1, .words = 2}}};
  return census;
}

TEST(ShortCensus, HasReachableClassesBySizeAndTheRestAsOne) {
  ImageBuilder builder;
  for (std::uint32_t fields = 1; fields <= ShortCensus::kMaxClasses + 2; ++fields) {
    builder.global("Cache", fields, builder.block(fields, 1));
  }
  builder.string(40);  // garbage
  const HeapImage image = builder.build();
  const ShortCensus census = shortened(image.info, count_image(image, ShortestPaths(image)));
  EXPECT_EQ(4242u, census.info.pid);
  EXPECT_EQ(41u, census.garbage.words);
  ASSERT_EQ(ShortCensus::kMaxClasses, census.classes.size());
  EXPECT_EQ("block(102, tag 1)", census.classes[0].name);
  EXPECT_EQ(103u, census.classes[0].count.words);
  EXPECT_EQ(2u, census.other.blocks);
  EXPECT_EQ(2u + 3u, census.other.words) << "the smallest";
}

TEST(CensusStore, KnowsOneOfEachSnapshot) {
  CensusStore book;
  book.add(census_at(5, 42, "string"));
  book.add(census_at(5, 43, "array"));
  book.add(census_at(5, 42, "int list"));
  EXPECT_EQ("int list", book.of({.pid = 42, .unix_ns = 5})->classes[0].name);
  EXPECT_EQ("array", book.of({.pid = 43, .unix_ns = 5})->classes[0].name);
  EXPECT_EQ(nullptr, book.of({.pid = 42, .unix_ns = 6}));
}

TEST(CensusStore, TheLatestOfAProcessIsNotOfOneBeforeIt) {
  CensusStore book;
  EXPECT_EQ(nullptr, book.latest(42, 0));
  book.add(census_at(7, 42));
  book.add(census_at(5, 42));
  book.add(census_at(9, 43));
  ASSERT_NE(nullptr, book.latest(42, 7));
  EXPECT_EQ(7, book.latest(42, 7)->info.unix_ns);
  EXPECT_EQ(nullptr, book.latest(42, 8));
}

TEST(CensusStore, TheEarliestGiveWay) {
  CensusStore book;
  for (std::int64_t i = 0; i <= static_cast<std::int64_t>(CensusStore::kMax); ++i) {
    book.add(census_at(i, 42));
  }
  EXPECT_EQ(nullptr, book.of({.pid = 42, .unix_ns = 0}));
  EXPECT_NE(nullptr, book.of({.pid = 42, .unix_ns = 1}));
}

}  // namespace
}  // namespace memprofd
