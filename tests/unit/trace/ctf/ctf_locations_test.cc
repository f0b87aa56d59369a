// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/ctf/ctf_locations.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace memprofd::ctf {
namespace {

class CtfLocations : public ::testing::Test {
 protected:
  // Bytes that it took.
  std::size_t put(std::uint64_t code, std::vector<Location> locations) {
    make_writable(locations);
    out_.clear();
    encoder_.put(out_, code, locations);
    return out_.size();
  }
  LocationDecoder::Decoded get() { return decoder_.get(out_.bytes()); }
  void expect_same(std::uint64_t code, const std::vector<Location>& locations) {
    put(code, locations);
    const LocationDecoder::Decoded decoded = get();
    EXPECT_EQ(decoded.code, code);
    EXPECT_TRUE(decoded.complete);
    EXPECT_EQ(std::vector(decoded.locations.begin(), decoded.locations.end()), locations);
  }

  std::array<std::byte, kMaxLocationBytes> buffer_{};
  ByteWriter out_{buffer_};
  LocationEncoder encoder_;
  LocationDecoder decoder_;
};

constexpr std::size_t kCodeAndCount = 9;

TEST_F(CtfLocations, NamesAreWrittenOnce) {
  EXPECT_EQ(put(1, {{"b.ml", "f", 1, 2, 3}}), kCodeAndCount + 6 + 5 + 2);
  EXPECT_EQ(put(2, {{"a.ml", "g", 1, 2, 3}}), kCodeAndCount + 6 + 5 + 2);
  EXPECT_EQ(put(3, {{"b.ml", "h", 1, 2, 3}}), kCodeAndCount + 6 + 2);
  EXPECT_EQ(put(4, {{"b.ml", "f", 9, 2, 3}}), kCodeAndCount + 6);
  EXPECT_EQ(put(5, {{"a.ml", "f", 9, 2, 3}}), kCodeAndCount + 6 + 2) << "functions are per file";
}

TEST_F(CtfLocations, ManyFilesAndFunctions) {
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const std::uint64_t file = i * i % 47, function = i * 31 % 101;
    expect_same(i, {{"file" + std::to_string(file) + ".ml", "f" + std::to_string(function),
                     static_cast<std::uint32_t>(i), 1, 2}});
  }
}

TEST_F(CtfLocations, ThirtyOneFilesFit) {
  for (int round = 0; round < 2; ++round) {
    for (int file = 0; file < 31; ++file) {
      const std::size_t bytes = put(1, {{std::string(1, static_cast<char>('A' + file)), "f"}});
      EXPECT_EQ(bytes, kCodeAndCount + 6 + (round == 0 ? 4 : 0)) << file;
    }
  }
  EXPECT_EQ(put(1, {{"the 32nd", "f"}}), kCodeAndCount + 6 + 9 + 2);
  EXPECT_EQ(put(1, {{"A", "f"}}), kCodeAndCount + 6 + 2 + 2) << "used longest ago, so it left";
}

TEST_F(CtfLocations, InlinedAndEmptyLists) {
  expect_same(7, {{"a.ml", "caller", 1, 2, 3}, {"b.ml", "callee", 4, 5, 6}});
  expect_same(8, {});
  std::vector<Location> most(255, Location{"a", "f", 1, 1, 1});
  expect_same(9, most);
}

TEST_F(CtfLocations, NumbersThatDoNotFitBecomeTheLargest) {
  put(1, {{"a.ml", "f", 2'000'000, 300, 5000}});
  const Location expected{"a.ml", "f", kMaxLine, kMaxStartColumn, kMaxEndColumn};
  EXPECT_EQ(get().locations[0], expected);
}

TEST_F(CtfLocations, EntriesThatDoNotFitAreUnknown) {
  const std::vector<Location> unknown = {unknown_location()};
  std::vector<Location> too_many(256, Location{"a", "f", 1, 1, 1});
  make_writable(too_many);
  EXPECT_EQ(too_many, unknown);
  std::vector<Location> too_long = {{std::string(5000, 'x'), "f", 1, 1, 1}};
  make_writable(too_long);
  EXPECT_EQ(too_long, unknown);
  std::vector<Location> longest = {
      {std::string(kMaxLocationBytes - kCodeAndCount - 6 - 3, 'x'), "f"}};
  make_writable(longest);
  EXPECT_NE(longest, unknown);
  EXPECT_EQ(put(1, longest), kMaxLocationBytes);
  put(1, {{std::string("a\0b", 3), "f", 1, 1, 1}});
  EXPECT_EQ(get().locations[0].file, "a");
}

TEST_F(CtfLocations, AfterALossOldNamesAreUnknownAndNewOnesRight) {
  expect_same(1, {{"old.ml", "f", 1, 2, 3}});
  expect_same(2, {{"older.ml", "g", 1, 2, 3}});
  decoder_.forget();
  expect_same(3, {{"new.ml", "h", 1, 2, 3}});
  put(4, {{"old.ml", "f", 5, 6, 7}});
  const LocationDecoder::Decoded old = get();
  EXPECT_FALSE(old.complete);
  EXPECT_EQ(old.locations[0], (Location{"<unknown>", "??", 5, 6, 7}));
  expect_same(5, {{"new.ml", "i", 1, 2, 3}});
  put(6, {{"old.ml", "new function", 1, 2, 3}});
  EXPECT_EQ(get().locations[0].function, "new function");
  put(7, {{"old.ml", "new function", 1, 2, 3}});
  EXPECT_EQ(get().locations[0].function, "new function");
  encoder_.forget();
  expect_same(8, {{"old.ml", "f", 1, 2, 3}});
}

TEST_F(CtfLocations, AnIndexOfNothingIsNotRead) {
  out_.clear();
  out_.put<std::uint64_t>(1);
  out_.put<std::uint8_t>(1);
  out_.put<std::uint32_t>(5);
  out_.put<std::uint16_t>(3 << 6 | 4 << 11);
  const LocationDecoder::Decoded decoded = get();
  EXPECT_FALSE(decoded.complete);
  EXPECT_EQ(decoded.locations[0].file, "<unknown>");
}

}  // namespace
}  // namespace memprofd::ctf
