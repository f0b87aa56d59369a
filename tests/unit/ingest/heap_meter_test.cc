// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/heap_meter.h"

#include <gtest/gtest.h>

#include <bit>
#include <optional>

namespace memprofd {
namespace {

// A domain with a minor heap that ends at kEnd and of which some words are in use.
constexpr std::uint64_t kEnd = 0x7f0000000000;

ObservedView hit(std::uint64_t state, std::uint64_t minor, std::uint64_t used,
                 std::uint64_t promoted = 1) {
  return {.domain_state = state,
          .words = {minor, promoted, 0},
          .young_ptr = kEnd - used * 8,
          .young_end = kEnd,
          .young_limit = kEnd - 1000 * 8};
}

// A hit because the runtime wanted control.
ObservedView interrupt(std::uint64_t minor, std::uint64_t used, std::uint64_t limit = ~0ull) {
  ObservedView view = hit(1, minor, used);
  view.young_limit = limit;
  return view;
}

TEST(HeapMeter, AHitStandsForWhatWasAllocatedSinceTheOneBefore) {
  DropCounters drops;
  HeapMeter meter(HeapMeter::Format::kIntegers, drops);
  meter.begin(hit(1, 1000, 100));
  EXPECT_EQ(meter.advance(hit(1, 1000, 250)), 150);  // in the same minor heap
  EXPECT_EQ(meter.advance(hit(1, 1300, 20)), 70);    // over a collection
  EXPECT_EQ(meter.advance(hit(1, 1300, 20)), 0);
  EXPECT_EQ(drops.total(), 0);
}

// The allocation after a wait would get what all others have allocated.
TEST(HeapMeter, AnInterruptLeavesItsWordsToTheNextHit) {
  for (const std::uint64_t limit : {~std::uint64_t{0}, kEnd}) {
    DropCounters drops;
    HeapMeter meter(HeapMeter::Format::kIntegers, drops);
    meter.begin(hit(1, 1000, 100));
    EXPECT_EQ(meter.advance(interrupt(1000, 200, limit)), std::nullopt);
    EXPECT_EQ(meter.totals()[0], 1200);
    EXPECT_EQ(meter.advance(interrupt(1000, 300, limit)), std::nullopt);
    EXPECT_EQ(meter.advance(hit(1, 1000, 900)), 800);
    EXPECT_EQ(meter.advance(interrupt(1000, 900, limit)), std::nullopt);
    EXPECT_EQ(drops.total(), 0);
  }
}

TEST(HeapMeter, ADomainThatOnlyOthersCollectIsSeenAtInterrupts) {
  DropCounters drops;
  HeapMeter meter(HeapMeter::Format::kIntegers, drops);
  meter.begin(hit(1, 1000, 100));
  EXPECT_EQ(meter.advance(interrupt(1150, 20)), std::nullopt) << "after one collection";
  EXPECT_EQ(meter.advance(interrupt(1150, 30)), std::nullopt);
  EXPECT_EQ(meter.advance(interrupt(1250, 5)), 155) << "after two";
  EXPECT_EQ(meter.advance(interrupt(1350, 5)), std::nullopt);
  EXPECT_EQ(meter.advance(hit(1, 1350, 105)), 200);
  EXPECT_EQ(meter.advance(interrupt(1450, 5)), std::nullopt) << "counted anew";
}

// The runtime takes a request back before another thread runs.
TEST(HeapMeter, ARequestThatIsTakenBackMakesNoOtherDomain) {
  DropCounters drops;
  HeapMeter meter(HeapMeter::Format::kIntegers, drops);
  meter.begin(hit(1, 90'000, 100));
  EXPECT_EQ(meter.advance(hit(1, 90'000, 400)), 300);
  EXPECT_EQ(meter.advance(interrupt(90'000, 150)), std::nullopt);
  EXPECT_EQ(meter.advance(hit(1, 90'000, 200)), 0);
  EXPECT_EQ(meter.advance(hit(1, 90'000, 500)), 100);
  EXPECT_EQ(meter.totals()[0], 90'500);
}

TEST(HeapMeter, ReadsTheDoublesOfOcaml4) {
  DropCounters drops;
  HeapMeter meter(HeapMeter::Format::kDoubles, drops);
  ObservedView first = hit(1, 0, 10), second = hit(1, 0, 10);
  first.words = {std::bit_cast<std::uint64_t>(5000.0), 0, 0};
  second.words = {std::bit_cast<std::uint64_t>(7500.0), 0, 0};
  meter.begin(first);
  EXPECT_EQ(meter.advance(second), 2500);
}

TEST(HeapMeter, LostHitsAreInTheNextOne) {
  DropCounters drops;
  HeapMeter all(HeapMeter::Format::kIntegers, drops), some(HeapMeter::Format::kIntegers, drops);
  all.begin(hit(1, 0, 0));
  some.begin(hit(1, 0, 0));
  double sum = 0;
  for (std::uint64_t i = 1; i <= 10; ++i) sum += *all.advance(hit(1, i * 256, i));
  EXPECT_EQ(some.advance(hit(1, 2560, 10)), sum);
}

TEST(HeapMeter, DomainsAreApart) {
  DropCounters drops;
  HeapMeter meter(HeapMeter::Format::kIntegers, drops);
  meter.begin(hit(1, 1000, 0));
  meter.begin(hit(2, 5000, 0));
  EXPECT_EQ(meter.advance(hit(1, 1100, 0)), 100);
  EXPECT_EQ(meter.advance(hit(2, 5300, 0)), 300);
  EXPECT_EQ(meter.totals()[0], 6400);
}

TEST(HeapMeter, OnlyTheFirstMinorHeapOfAnUnknownDomainIsKnownToBeNew) {
  DropCounters drops;
  HeapMeter meter(HeapMeter::Format::kIntegers, drops);
  EXPECT_EQ(meter.advance(hit(1, 90'000, 500)), 0);  // it ran before we came
  EXPECT_EQ(meter.advance(hit(2, 0, 500, 0)), 500);  // it has not collected yet
}

TEST(HeapMeter, ADomainInThePlaceOfOneThatEndedCountsFromZero) {
  DropCounters drops;
  HeapMeter meter(HeapMeter::Format::kIntegers, drops);
  meter.begin(hit(1, 8000, 0));
  EXPECT_EQ(meter.advance(hit(1, 300, 20)), 320);
  EXPECT_EQ(meter.totals()[0], 8320);
}

TEST(HeapMeter, ImplausibleCountersAreCountedAndRestart) {
  for (const auto& bad : {hit(1, ~0ull, 0), ObservedView{.domain_state = 1,
                                            .words = {500, 0, 0},
                                            .young_ptr = kEnd,
                                            .young_end = 8,
                                            .young_limit = 0}}) {
    DropCounters drops;
    HeapMeter meter(HeapMeter::Format::kIntegers, drops);
    meter.begin(hit(1, 1000, 0));
    EXPECT_EQ(meter.advance(bad), 0);
    EXPECT_EQ(drops.get(Drop::kDecodeBadCounters), 1);
    EXPECT_EQ(meter.advance(hit(1, 1500, 0)), 0);
    EXPECT_EQ(meter.advance(hit(1, 1600, 0)), 100);
  }
}

TEST(HeapMeter, DomainsAreBounded) {
  DropCounters drops;
  HeapMeter meter(HeapMeter::Format::kIntegers, drops);
  for (std::uint64_t state = 0; state <= HeapMeter::kMaxDomains; ++state) {
    meter.begin(hit(state, 1000, 0));
  }
  EXPECT_EQ(drops.get(Drop::kDecodeBadCounters), 1);
}

}  // namespace
}  // namespace memprofd
