// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/decoder.h"

#include <gtest/gtest.h>

#include "tests/kit/ring_events.h"

namespace memprofd {
namespace {

class DecoderTest : public testing::Test {
 protected:
  template <typename View>
  std::optional<View> decode(std::span<const std::byte> bytes) {
    const auto event = decode_event(bytes, drops_);
    if (!event || !std::holds_alternative<View>(*event)) return std::nullopt;
    return std::get<View>(*event);
  }
  void expect_refused(std::span<const std::byte> bytes, Drop reason) {
    const auto before = drops_.get(reason);
    EXPECT_FALSE(decode_event(bytes, drops_).has_value());
    EXPECT_EQ(drops_.get(reason), before + 1);
  }

  DropCounters drops_;
  memprof_capture capture_{.header = {.tid = 9, .captures_dropped = 0, .time_ns = 77},
                           .stack_id = 5,
                           .alloc_idx = -1,
                           .flags = MEMPROF_CAPTURE_INTERNED,
                           .n_frames = 12,
                           .captures_dropped = 3};
};

TEST_F(DecoderTest, Capture) {
  const RingRecord record = ring_capture(capture_, {10, 20, 30});
  const auto view = decode<CaptureView>(record.bytes());
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->tid, 9u);
  EXPECT_EQ(view->time_ns, 77u);
  EXPECT_EQ(view->stack, StackHash(5));
  EXPECT_EQ(view->alloc_idx, -1);
  EXPECT_EQ(view->flags, std::uint32_t{MEMPROF_CAPTURE_INTERNED});
  EXPECT_EQ(view->n_frames, 12u);
  EXPECT_EQ(view->captures_dropped, 3u);
  EXPECT_EQ(std::vector(view->entries.begin(), view->entries.end()),
            (std::vector<std::uint64_t>{10, 20, 30}));
  EXPECT_EQ(drops_.total(), 0u);
}

TEST_F(DecoderTest, CaptureOfAStackSentBeforeHasNoEntries) {
  const RingRecord record = ring_capture(capture_, {});
  const auto view = decode<CaptureView>(record.bytes());
  ASSERT_TRUE(view.has_value());
  EXPECT_TRUE(view->entries.empty());
}

TEST_F(DecoderTest, BatchInALargerReserve) {
  memprof_batch batch{
      .header = {.captures_dropped = 4, .time_ns = 8}, .first_seq = 100, .generation = 2};
  const RingRecord record = ring_batch(batch, {sample_record(1, 1, MEMPROF_ALLOC_MINOR, 1)}, 16);
  const auto view = decode<BatchView>(record.bytes());
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->time_ns, 8u);
  EXPECT_EQ(view->captures_dropped, 4u);
  EXPECT_EQ(view->first_seq, 100u);
  EXPECT_EQ(view->generation, 2u);
  ASSERT_EQ(view->records.size(), 1u);
  EXPECT_EQ(view->records[0].sample_id, 1u);
}

TEST_F(DecoderTest, Lifecycle) {
  const RingRecord record = ring_lifecycle(MEMPROF_LIFECYCLE_THREAD_EXIT, 42, 99);
  const auto view = decode<LifecycleView>(record.bytes());
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->what, MEMPROF_LIFECYCLE_THREAD_EXIT);
  EXPECT_EQ(view->tid, 42u);
  EXPECT_EQ(view->time_ns, 99u);
}

TEST_F(DecoderTest, EveryTruncationIsRefused) {
  const RingRecord records[] = {
      ring_capture(capture_, {1, 2, 3}),
      ring_batch({}, {sample_record(1, 1, MEMPROF_ALLOC_MINOR, 1)}),
      ring_lifecycle(MEMPROF_LIFECYCLE_EXEC, 1, 1),
  };
  for (const RingRecord& record : records) {
    for (std::size_t n = 0; n < record.bytes().size(); ++n) {
      expect_refused(record.first(n), Drop::kDecodeTooShort);
    }
    EXPECT_TRUE(decode_event(record.bytes(), drops_).has_value());
  }
}

TEST_F(DecoderTest, AbsurdCountsAreRefused) {
  memprof_capture capture = capture_;
  capture.header.kind = MEMPROF_EVENT_CAPTURE;
  capture.n_entries = MEMPROF_MAX_STACK_ENTRIES + 1;
  expect_refused(RingRecord(&capture, sizeof capture, nullptr, 0).bytes(), Drop::kDecodeBadCount);
  capture.n_entries = MEMPROF_MAX_STACK_ENTRIES;
  expect_refused(RingRecord(&capture, sizeof capture, nullptr, 0).bytes(), Drop::kDecodeTooShort);

  memprof_batch batch{.header = {.kind = MEMPROF_EVENT_BATCH}, .count = 0xffffffff};
  expect_refused(RingRecord(&batch, sizeof batch, nullptr, 0).bytes(), Drop::kDecodeBadCount);
}

TEST_F(DecoderTest, NonsenseIsRefused) {
  memprof_event_header header{.kind = 9};
  expect_refused(RingRecord(&header, sizeof header, nullptr, 0).bytes(), Drop::kDecodeBadKind);
  header.kind = 0;
  expect_refused(RingRecord(&header, sizeof header, nullptr, 0).bytes(), Drop::kDecodeBadKind);
  expect_refused(ring_lifecycle(static_cast<memprof_lifecycle_what>(4), 1, 1).bytes(),
                 Drop::kDecodeBadKind);
  capture_.stack_id = 0;
  expect_refused(ring_capture(capture_, {1}).bytes(), Drop::kDecodeBadRecord);
  expect_refused(ring_capture(capture_, {1, 2}).bytes().subspan(4), Drop::kDecodeTooShort);
}

TEST(ValidRecordTest, ChecksEachField) {
  EXPECT_TRUE(valid_record(sample_record(1, 1, MEMPROF_ALLOC_MAJOR, 1)));
  EXPECT_TRUE(valid_record(sample_record(1, 1, MEMPROF_DEALLOC_MAJOR, 0)));
  EXPECT_FALSE(valid_record(sample_record(1, 1, 0, 1)));
  EXPECT_FALSE(valid_record(sample_record(1, 1, 6, 1)));
  EXPECT_FALSE(valid_record(sample_record(1, 0, MEMPROF_PROMOTE)));
  EXPECT_FALSE(valid_record(sample_record(1, 1, MEMPROF_ALLOC_MINOR, 0)));
  EXPECT_FALSE(valid_record(sample_record(1, 1, MEMPROF_ALLOC_MINOR, 1, 7, 3)));
}

TEST(DropNameTest, NamesAreThereAndDistinct) {
  std::vector<std::pair<std::string_view, std::string_view>> names;
  for (int i = 0; i < kDrops; ++i) {
    const DropName name = drop_name(static_cast<Drop>(i));
    EXPECT_FALSE(name.reason.empty());
    names.emplace_back(name.stage, name.reason);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_EQ(drop_name(Drop::kKernelBatchUnreadable).reason, "batch_unreadable");
  EXPECT_EQ(drop_name(Drop::kDecodeTooShort).stage, "decode");
  EXPECT_EQ(drop_name(Drop::kPairUnknownStack).reason, "unknown_stack");
  EXPECT_EQ(drop_name(Drop::kFollowCallstacksFull).reason, "callstacks_full");
}

}  // namespace
}  // namespace memprofd
