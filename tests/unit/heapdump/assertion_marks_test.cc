// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/assertion_marks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "agent-lib/include/memprof_values_abi.h"
#include "tests/kit/fake_memory.h"

namespace memprofd {
namespace {

using Until = AssertionMark::Until;

constexpr std::uint64_t kNil = 1;
constexpr std::uint64_t kNone = 0x5008;  // what an empty place holds
constexpr std::uint64_t kNow = 1'000'000;

std::uint64_t integer(std::uint64_t value) { return value << 1 | 1; }

class AssertionMarks : public testing::Test {
 protected:
  AssertionMarks() {
    head_.magic = MEMPROF_VALUES_MAGIC;
    head_.abi = MEMPROF_VALUES_ABI;
    head_.slot_bytes = sizeof(memprof_slot);
  }
  std::uint64_t block() { return memory_.put_block(252, {0}); }
  // Marks of one store, whose weak arrays have these addresses.
  std::uint64_t marks(const std::vector<std::vector<std::uint64_t>>& arrays) {
    std::vector<std::uint64_t> weak;
    for (std::vector<std::uint64_t> places : arrays) {
      places.insert(places.begin(), {kNil, kNone});
      weak.push_back(memory_.put_block(251, places));
    }
    const std::uint64_t store = memory_.put_block(0, {memory_.put_block(0, weak), 7});
    return memory_.put_block(0, {memory_.put_block(0, {memory_.put_block(0, {store, kNil})}), 9});
  }
  memprof_slot& slot(memprof_slot_kind kind, const char* name, std::uint64_t root) {
    memprof_slot& slot = slots_.emplace_back();
    slot.kind = kind;
    slot.root = root;
    slot.number = kNone;
    std::strncpy(slot.name, name, sizeof slot.name - 1);
    return slot;
  }
  FoundAssertions read() {
    const std::uint64_t registry = memory_.end();
    head_.slots_used = static_cast<std::uint32_t>(slots_.size());
    memory_.put(head_);
    while (memory_.end() < registry + offsetof(memprof_values, slots)) memory_.put(std::byte{0});
    for (const memprof_slot& slot : slots_) memory_.put(slot);
    return read_assertions(memory_, registry, kNow);
  }

  FakeMemory memory_{0x10000};
  memprof_values_head head_{};
  std::vector<memprof_slot> slots_;
};

TEST_F(AssertionMarks, AValueIsMarkedOnceItsTimeIsOver) {
  const std::uint64_t due = block(), later = block();
  slot(MEMPROF_SLOT_TAG, "tag", marks({{block(), block()}}));
  slot(MEMPROF_SLOT_UNREACHABLE, "session",
       marks({{due, integer(kNow), kNone, integer(5)}, {later, integer(kNow + 1)}}));
  const FoundAssertions found = read();
  ASSERT_EQ(1u, found.assertions.size()) << "a tag asserts nothing";
  EXPECT_EQ("session", found.assertions[0].name);
  EXPECT_EQ(1u, found.assertions[0].not_due);
  EXPECT_TRUE(found.assertions[0].is_whole);
  ASSERT_EQ(1u, found.marks.size());
  EXPECT_EQ(due, found.marks[0].value);
  EXPECT_EQ(Until::kNow, found.marks[0].until);
}

TEST_F(AssertionMarks, TheOtherValueIsKnownOrGone) {
  const std::uint64_t first = block(), second = block(), other = block();
  slot(MEMPROF_SLOT_DIES_BEFORE, "buffer", marks({{first, other, second, kNone, kNone, other}}));
  const FoundAssertions found = read();
  ASSERT_EQ(2u, found.marks.size());
  EXPECT_EQ(first, found.marks[0].value);
  EXPECT_EQ(Until::kOther, found.marks[0].until);
  EXPECT_EQ(other, found.marks[0].other);
  EXPECT_EQ(second, found.marks[1].value);
  EXPECT_EQ(Until::kOtherIsGone, found.marks[1].until);
}

TEST_F(AssertionMarks, ARegionHasTheTimesOfItsLastRun) {
  memprof_slot& region = slot(MEMPROF_SLOT_REGION, "load", kNow - 900);
  region.number = 4096;
  region.changed_ns = kNow - 200;
  const FoundAssertions found = read();
  ASSERT_EQ(1u, found.assertions.size());
  EXPECT_EQ(AssertionKind::kRegion, found.assertions[0].kind);
  EXPECT_EQ(4096u, found.assertions[0].max_bytes);
  EXPECT_EQ(900u, found.assertions[0].begin_age_ns);
  EXPECT_EQ(200u, found.assertions[0].end_age_ns);
}

TEST_F(AssertionMarks, MarksThatCannotBeReadAreMissing) {
  slot(MEMPROF_SLOT_UNREACHABLE, "broken", 0x99990);
  slot(MEMPROF_SLOT_UNREACHABLE, "whole", marks({{block(), integer(0)}}));
  const FoundAssertions found = read();
  ASSERT_EQ(2u, found.assertions.size());
  EXPECT_FALSE(found.assertions[0].is_whole);
  EXPECT_TRUE(found.assertions[1].is_whole);
}

TEST_F(AssertionMarks, MarksAreBounded) {
  const std::uint64_t value = block();
  std::vector<std::uint64_t> places;
  for (int i = 0; i < 512; ++i) places.insert(places.end(), {value, integer(0)});
  slot(MEMPROF_SLOT_UNREACHABLE, "many",
       marks(std::vector<std::vector<std::uint64_t>>(kMaxAssertionMarks / 512 + 1, places)));
  const FoundAssertions found = read();
  EXPECT_EQ(kMaxAssertionMarks, found.marks.size());
  EXPECT_GT(found.assertions[0].unchecked, 0u);
}

TEST_F(AssertionMarks, ReadingIsBounded) {
  // One array with an empty place, which the store has again and again.
  const std::uint64_t array = memory_.put_block(251, {kNil, kNone, kNone});
  const std::uint64_t arrays =
      memory_.put_block(0, std::vector<std::uint64_t>(kMaxAssertionReads / 2, array));
  const std::uint64_t list = memory_.put_block(0, {memory_.put_block(0, {arrays, 7}), kNil});
  slot(MEMPROF_SLOT_UNREACHABLE, "huge", memory_.put_block(0, {memory_.put_block(0, {list}), 9}));
  slot(MEMPROF_SLOT_UNREACHABLE, "later", marks({{block(), integer(0)}}));
  const FoundAssertions found = read();
  ASSERT_EQ(2u, found.assertions.size());
  EXPECT_FALSE(found.assertions[0].is_whole);
  EXPECT_FALSE(found.assertions[1].is_whole);
  EXPECT_TRUE(found.marks.empty());
}

TEST_F(AssertionMarks, AnotherRegistryHasNone) {
  slot(MEMPROF_SLOT_UNREACHABLE, "session", marks({{block(), integer(0)}}));
  head_.abi = MEMPROF_VALUES_ABI + 1;
  EXPECT_TRUE(read().assertions.empty());
  EXPECT_TRUE(read_assertions(memory_, 0, kNow).assertions.empty());
}

}  // namespace
}  // namespace memprofd
