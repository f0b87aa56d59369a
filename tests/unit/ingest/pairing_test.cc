// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/pairing.h"

#include <gtest/gtest.h>

#include "daemon/ingest/decoder.h"
#include "tests/kit/runtime_model.h"

namespace memprofd {
namespace {

constexpr std::uint32_t kTid = 7;

class PairingTest : public testing::Test {
 protected:
  void direct(std::uint64_t time, std::uint32_t stack, std::uint32_t tid = kTid) {
    pairer_.on_capture(tid, {.time_ns = time, .callstack = CallstackId(stack), .direct = true});
  }
  void postponed(std::uint64_t time, std::uint32_t stack, std::uint32_t tid = kTid) {
    pairer_.on_capture(tid, {.time_ns = time, .callstack = CallstackId(stack)});
  }
  void interned(std::uint64_t time, std::uint32_t stack) {
    pairer_.on_capture(kTid, {.time_ns = time, .callstack = CallstackId(stack), .interned = true});
  }
  // The stack that an alloc record gets; 0: none.
  std::uint32_t alloc(std::uint64_t time, std::uint32_t source = MEMPROF_SOURCE_NORMAL,
                      std::uint32_t tid = kTid, std::uint32_t kind = MEMPROF_ALLOC_MINOR) {
    return pairer_
        .on_alloc(0, {.time_ns = time,
                      .sample_id = 1,
                      .size_words = 1,
                      .n_samples = 1,
                      .origin = MEMPROF_ORIGIN(tid, source, kind)})
        .value();
  }
  std::uint32_t marshal(std::uint64_t time) { return alloc(time, MEMPROF_SOURCE_MARSHAL); }
  std::uint64_t lost(Drop drop) const { return drops_.get(drop); }

  DropCounters drops_;
  Pairer pairer_{PairerLimits{.threads = 3, .captures_per_thread = 4, .captures = 8}, drops_};
};

TEST_F(PairingTest, WorkedExampleOfTheHeader) {
  postponed(10, 1);
  direct(20, 2);
  postponed(30, 3);
  interned(40, 4);
  EXPECT_EQ(alloc(25), 2u);
  EXPECT_EQ(alloc(50), 1u);
  EXPECT_EQ(alloc(51), 3u);
  EXPECT_EQ(marshal(52), 4u);
  EXPECT_EQ(marshal(53), 4u);
  EXPECT_EQ(drops_.total(), 0u);
}

TEST_F(PairingTest, CaptureIsNotPairedWithAnOlderRecord) {
  direct(20, 1);
  EXPECT_EQ(alloc(19), 0u);
  EXPECT_EQ(alloc(20), 1u);
  EXPECT_EQ(lost(Drop::kPairNoCapture), 1u);
}

TEST_F(PairingTest, ThreadsArePairedByThemselves) {
  postponed(10, 1, 8);
  postponed(11, 2, 9);
  EXPECT_EQ(alloc(20, MEMPROF_SOURCE_NORMAL, 9), 2u);
  EXPECT_EQ(alloc(21, MEMPROF_SOURCE_NORMAL, 8), 1u);
}

TEST_F(PairingTest, NewerDirectCaptureReplacesAnUnusedOne) {
  direct(10, 1);
  direct(11, 2);
  EXPECT_EQ(alloc(12), 2u);
  EXPECT_EQ(lost(Drop::kPairUnusedCapture), 1u);
}

TEST_F(PairingTest, DirectCaptureTakesOnlyASmallNormalAllocation) {
  postponed(9, 1);
  direct(10, 2);
  EXPECT_EQ(alloc(12, MEMPROF_SOURCE_NORMAL, kTid, MEMPROF_ALLOC_MAJOR), 1u);
  EXPECT_EQ(lost(Drop::kPairUnusedCapture), 1u);
}

TEST_F(PairingTest, RunLeavesNothingOutstanding) {
  postponed(10, 1);
  postponed(11, 2);
  EXPECT_EQ(alloc(20), 1u);
  // The record of capture 2 never came in this run.
  postponed(30, 3);
  EXPECT_EQ(alloc(40), 3u);
  EXPECT_EQ(lost(Drop::kPairUnusedCapture), 1u);
}

TEST_F(PairingTest, SecondUnmarshallingAfterTheFirstRun) {
  interned(10, 1);
  EXPECT_EQ(marshal(11), 1u);
  EXPECT_EQ(marshal(12), 1u);
  interned(20, 2);
  EXPECT_EQ(marshal(21), 2u);
  EXPECT_EQ(marshal(22), 2u);
}

TEST_F(PairingTest, UnmarshallingsSideBySideInOneRunAreNotGuessed) {
  interned(10, 1);
  interned(11, 2);
  EXPECT_EQ(marshal(20), 1u);
  EXPECT_EQ(marshal(21), 0u);
  EXPECT_EQ(marshal(22), 0u);
  interned(30, 3);
  EXPECT_EQ(marshal(31), 3u);
}

TEST_F(PairingTest, UnmarshallingsWithOneBetweenAreTold) {
  interned(10, 1);
  postponed(11, 2);
  interned(12, 3);
  EXPECT_EQ(marshal(20), 1u);
  EXPECT_EQ(marshal(21), 1u);
  EXPECT_EQ(alloc(22), 2u);
  EXPECT_EQ(marshal(23), 3u);
  EXPECT_EQ(marshal(24), 3u);
}

// The mark is a guess from the native stack.
TEST_F(PairingTest, ACaptureThatIsWronglyMarkedAsInternedIsItsRecords) {
  interned(10, 1);
  postponed(11, 2);
  EXPECT_EQ(alloc(20, MEMPROF_SOURCE_CUSTOM), 1u);
  EXPECT_EQ(alloc(21), 2u);
  EXPECT_EQ(lost(Drop::kPairUnusedCapture), 0u);
}

TEST_F(PairingTest, InternedCapturesBehindAnUnmarshallingAreDroppedByAnotherKindOfRecord) {
  interned(10, 1);
  interned(11, 2);
  postponed(12, 3);
  EXPECT_EQ(marshal(20), 1u);
  EXPECT_EQ(marshal(21), 0u);
  EXPECT_EQ(alloc(22), 3u);
  EXPECT_EQ(lost(Drop::kPairUnusedCapture), 1u);
}

TEST_F(PairingTest, LostCaptureMakesUnknownUntilARunHasPassed) {
  postponed(10, 1);
  // A direct capture at 15 is lost.
  pairer_.on_captures_lost(10, 20);
  postponed(20, 2);
  EXPECT_EQ(alloc(16), 0u);  // its record
  EXPECT_EQ(alloc(30), 0u);
  EXPECT_EQ(alloc(31), 0u);
  direct(40, 3);
  EXPECT_EQ(alloc(41), 3u);
  postponed(50, 4);
  EXPECT_EQ(alloc(51), 4u);
}

TEST_F(PairingTest, DirectCapturesArePairedWhileMisaligned) {
  pairer_.on_captures_lost(1, 5);
  direct(10, 1);
  EXPECT_EQ(alloc(11), 1u);
  postponed(20, 2);
  EXPECT_EQ(alloc(21), 0u) << "a loss may have left something outstanding";
}

TEST_F(PairingTest, RecordsBeforeTheLossKeepTheirStacks) {
  postponed(10, 1);
  postponed(12, 2);
  pairer_.on_captures_lost(20, 30);
  EXPECT_EQ(alloc(15), 1u);
  EXPECT_EQ(alloc(16), 2u);
}

TEST_F(PairingTest, LostRecordsTakeTheOlderCapturesWithThem) {
  direct(10, 1);  // record lost
  postponed(11, 2);
  direct(29, 3);  // looks like one whose record was lost
  pairer_.on_records_lost(30);
  EXPECT_EQ(alloc(30), 0u);
  direct(40, 4);
  EXPECT_EQ(alloc(41), 4u);
  EXPECT_EQ(lost(Drop::kPairUnusedCapture), 3u);
}

TEST_F(PairingTest, ThreadExitKeepsCapturesOfRecordsStillInTheBatch) {
  direct(10, 1);
  pairer_.on_thread_exit(kTid, 20);
  EXPECT_EQ(alloc(11), 1u);
  pairer_.on_batch_end(0, 30);
  EXPECT_EQ(pairer_.threads(), 0u);
}

TEST_F(PairingTest, ThreadIdUsedAgainStartsEmpty) {
  postponed(10, 1);
  pairer_.on_thread_exit(kTid, 20);
  postponed(30, 2);
  EXPECT_EQ(alloc(40), 2u);
  EXPECT_EQ(lost(Drop::kPairUnusedCapture), 1u);
}

TEST_F(PairingTest, ClearForgetsEverything) {
  postponed(10, 1);
  pairer_.on_captures_lost(5, 6);
  pairer_.clear();
  EXPECT_EQ(lost(Drop::kPairUnusedCapture), 1u);
  EXPECT_EQ(pairer_.captures(), 0u);
  postponed(20, 2);
  EXPECT_EQ(alloc(21), 2u);
}

TEST_F(PairingTest, FullQueueOfAThreadGivesNoWrongStack) {
  for (std::uint32_t i = 1; i <= 4; ++i) postponed(i, i);
  direct(10, 5);  // no room
  EXPECT_EQ(lost(Drop::kPairQueueFull), 1u);
  EXPECT_EQ(alloc(11), 0u) << "the record of the refused capture";
  direct(20, 6);
  EXPECT_EQ(alloc(21), 6u);
  postponed(30, 7);
  EXPECT_EQ(alloc(31), 0u);
  postponed(40, 8);
  EXPECT_EQ(alloc(41), 8u);
}

TEST_F(PairingTest, MemoryIsBoundedOverAllThreads) {
  for (std::uint32_t tid = 1; tid <= 3; ++tid) {
    for (std::uint32_t i = 1; i <= 4; ++i) postponed(i, i, tid);
  }
  EXPECT_EQ(pairer_.captures(), 8u);
  EXPECT_EQ(lost(Drop::kPairQueueFull), 4u);
}

TEST_F(PairingTest, IdleThreadsMakeRoomForNewOnes) {
  for (std::uint32_t tid = 1; tid <= 3; ++tid) direct(10, tid, tid);
  direct(11, 9, 4);
  EXPECT_EQ(lost(Drop::kPairQueueFull), 1u) << "all three have captures";
  EXPECT_EQ(alloc(12, MEMPROF_SOURCE_NORMAL, 2), 2u);
  pairer_.on_batch_end(0, 13);
  direct(20, 10, 5);
  EXPECT_EQ(alloc(21, MEMPROF_SOURCE_NORMAL, 5), 10u);
  EXPECT_EQ(pairer_.threads(), 3u);
}

// ---- against the model of the runtime ----

struct Faults {
  int capture_loss_percent = 0;
  int batch_loss_percent = 0;
};

struct Outcome {
  std::uint64_t right = 0;
  std::uint64_t unknown = 0;
  std::uint64_t wrong = 0;
};

// OCaml 5: the oldest outstanding block gets the first callback, whichever domain allocated it.
TEST(PairingInOrder, EachRecordTakesTheOldestCapture) {
  DropCounters drops;
  Pairer pairer(PairerLimits{.in_order = true}, drops);
  const auto capture = [&](std::uint64_t time, std::uint32_t stack, bool direct) {
    pairer.on_capture(7, {.time_ns = time, .callstack = CallstackId(stack), .direct = direct});
  };
  const auto alloc = [&](std::uint64_t time, std::uint32_t source = MEMPROF_SOURCE_NORMAL) {
    return pairer
        .on_alloc(3, {.time_ns = time,
                      .sample_id = 1,
                      .size_words = 1,
                      .n_samples = 1,
                      .origin = MEMPROF_ORIGIN(7u, source, MEMPROF_ALLOC_MINOR)})
        .value();
  };
  capture(10, 1, false);  // by C
  capture(11, 2, false);  // a block of an unmarshalling
  capture(12, 3, false);  // another one of it
  capture(20, 4, true);   // two combined allocations
  capture(21, 5, true);
  EXPECT_EQ(alloc(30), 1u);
  EXPECT_EQ(alloc(31, MEMPROF_SOURCE_MARSHAL), 2u);
  EXPECT_EQ(alloc(32, MEMPROF_SOURCE_MARSHAL), 3u);
  EXPECT_EQ(alloc(33), 4u);
  EXPECT_EQ(alloc(34), 5u);
  EXPECT_EQ(drops.total(), 0u);
}

TEST(PairingInOrder, AThreadIsKeptUntilItsOwnBufferHasCome) {
  DropCounters drops;
  Pairer pairer(PairerLimits{.in_order = true}, drops);
  const auto capture = [&](std::uint64_t time, std::uint32_t stack) {
    pairer.on_capture(7, {.time_ns = time, .callstack = CallstackId(stack), .direct = true});
  };
  const memprof_record record{.time_ns = 30,
                              .sample_id = 1,
                              .size_words = 1,
                              .n_samples = 1,
                              .origin = MEMPROF_ORIGIN(7u, 0u, MEMPROF_ALLOC_MINOR)};
  capture(10, 1);
  EXPECT_EQ(pairer.on_alloc(3, record).value(), 1u);
  capture(20, 2);
  pairer.on_thread_exit(7, 40);
  pairer.on_batch_end(2, 50);  // of another domain
  EXPECT_EQ(pairer.on_alloc(3, record).value(), 2u);
  pairer.on_batch_end(3, 60);
  EXPECT_EQ(pairer.threads(), 0u);
}

// Carries the model's events to a pairer and loses some of them. It reports losses as the kernel
// side and the record numbers do.
class LossyLink {
 public:
  LossyLink(unsigned seed, const ModelOptions& options, const Faults& faults)
      : pairer_(PairerLimits{.as_one_thread = options.one_queue}, drops_),
        model_(seed, options),
        random_(seed + 1),
        faults_(faults) {
    model_.on_capture = [this](const ModelCapture& capture) { carry(capture); };
    model_.on_batch = [this](const ModelBatch& batch) { carry(batch); };
    model_.on_thread_exit = [this](std::uint32_t tid, std::uint64_t time_ns) {
      pairer_.on_thread_exit(tid, time_ns);
    };
  }

  Outcome run(int steps) {
    model_.run(steps);
    return outcome_;
  }
  const DropCounters& drops() const { return drops_; }

 private:
  bool chance(int percent) { return static_cast<int>(random_() % 100) < percent; }

  void carry(const ModelCapture& capture) {
    if (chance(faults_.capture_loss_percent)) {
      capture_lost_ = true;
      return;
    }
    tell_losses(capture.time_ns);
    pairer_.on_capture(capture.tid, {.time_ns = capture.time_ns,
                                     .callstack = CallstackId(capture.stack),
                                     .direct = capture.direct,
                                     .interned = capture.interned});
  }

  void carry(const ModelBatch& batch) {
    if (chance(faults_.batch_loss_percent)) {
      batch_lost_ = true;
      return;
    }
    tell_losses(batch.time_ns);
    if (batch_lost_) pairer_.on_records_lost(batch.records.front().time_ns);
    batch_lost_ = false;
    for (const memprof_record& record : batch.records) {
      if (is_alloc(record)) check(record);
    }
    pairer_.on_batch_end(0, batch.time_ns);
  }

  void tell_losses(std::uint64_t time_ns) {
    if (capture_lost_) pairer_.on_captures_lost(told_ns_, time_ns);
    capture_lost_ = false;
    told_ns_ = time_ns;
  }

  void check(const memprof_record& record) {
    const std::uint32_t stack = pairer_.on_alloc(0, record).value();
    if (stack == 0) {
      ++outcome_.unknown;
    } else if (stack == model_.truth[record.sample_id]) {
      ++outcome_.right;
    } else {
      ++outcome_.wrong;
    }
  }

  DropCounters drops_;
  Pairer pairer_;
  RuntimeModel model_;
  std::mt19937 random_;
  Faults faults_;
  Outcome outcome_;
  bool capture_lost_ = false;
  bool batch_lost_ = false;
  std::uint64_t told_ns_ = 0;
};

TEST(PairingModelTest, EveryStackIsRightWithoutLoss) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    LossyLink link(seed, {.threads = 1 + static_cast<int>(seed % 7)}, {});
    const Outcome outcome = link.run(3000);
    EXPECT_GT(outcome.right, 2000u) << "seed " << seed;
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
    EXPECT_EQ(outcome.unknown, 0u) << "seed " << seed;
  }
}

TEST(PairingModelTest, EveryStackIsRightWithOneQueueForAllThreads) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    LossyLink link(seed, {.threads = 1 + static_cast<int>(seed % 7), .one_queue = true}, {});
    const Outcome outcome = link.run(3000);
    EXPECT_GT(outcome.right, 2000u) << "seed " << seed;
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
    EXPECT_EQ(outcome.unknown, 0u) << "seed " << seed;
  }
}

TEST(PairingModelTest, LossesWithOneQueueGiveNoWrongStacks) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    LossyLink link(seed, {.nested_unmarshalling = true, .one_queue = true},
                   {.capture_loss_percent = 2, .batch_loss_percent = 10});
    const Outcome outcome = link.run(2000);
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
    EXPECT_GT(outcome.right, outcome.unknown / 4) << "seed " << seed;
  }
}

TEST(PairingModelTest, NestedUnmarshallingIsNeverWrong) {
  Outcome sum;
  for (unsigned seed = 0; seed < 20; ++seed) {
    LossyLink link(seed, {.nested_unmarshalling = true}, {});
    const Outcome outcome = link.run(3000);
    sum.right += outcome.right;
    sum.unknown += outcome.unknown;
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
  }
  EXPECT_GT(sum.unknown, 0u) << "the model made no ambiguous case";
  EXPECT_GT(sum.right, 4 * sum.unknown);
}

TEST(PairingModelTest, LostCapturesGiveUnknownStacksNeverWrongOnes) {
  for (int percent : {1, 5, 30}) {
    Outcome sum;
    for (unsigned seed = 0; seed < 30; ++seed) {
      LossyLink link(seed, {.threads = 1 + static_cast<int>(seed % 5)},
                     {.capture_loss_percent = percent});
      const Outcome outcome = link.run(2000);
      sum.right += outcome.right;
      sum.unknown += outcome.unknown;
      EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed << " loss " << percent;
    }
    EXPECT_GT(sum.unknown, 0u);
    EXPECT_GT(sum.right, sum.unknown / 2) << "loss " << percent;
  }
}

TEST(PairingModelTest, LostBatchesGiveUnknownStacksNeverWrongOnes) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    LossyLink link(seed, {.nested_unmarshalling = true},
                   {.capture_loss_percent = 2, .batch_loss_percent = 10});
    const Outcome outcome = link.run(2000);
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
    EXPECT_GT(outcome.right, outcome.unknown / 2) << "seed " << seed;
  }
}

}  // namespace
}  // namespace memprofd
