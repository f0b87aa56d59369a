// SPDX-License-Identifier: Apache-2.0
// The real kernel side on a real kernel. Runs as root.
#include "daemon/attach/kernel/kernel_side.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/kernel/kernel_side_fixture.h"

namespace memprofd {
namespace {

using Caller = ProbeTarget::Caller;

TEST_F(KernelSideTest, SemaphoreFollowsTheBatchProbe) {
  auto side = load(config());
  EXPECT_EQ(target_->semaphore(), 0);
  attach_all(*side);
  EXPECT_EQ(target_->semaphore(), 1);
  side->probes().detach();
  EXPECT_EQ(target_->semaphore(), 0);
  attach_all(*side);
  EXPECT_EQ(target_->semaphore(), 1);
  side.kernel.reset();
  EXPECT_EQ(target_->semaphore(), 0);
}

TEST_F(KernelSideTest, BatchesArriveByteExactAndInOrder) {
  auto side = load(config());
  attach_all(*side);
  std::mt19937_64 random(1);
  auto& records = target_->shared().records;
  std::uint64_t seq = 1ull << 40;
  for (const std::uint32_t count : {0u, 1u, 15u, 16u, 17u, 127u, 128u, 129u, 511u, 512u}) {
    for (auto& record : records)
      record = {random(), random(), random(), static_cast<std::uint32_t>(random()),
                static_cast<std::uint32_t>(random())};
    const int tid = target_->batch(reinterpret_cast<std::uint64_t>(records), count, seq, 77, 5);
    const auto got = take(side);
    ASSERT_EQ(got.size(), 1u) << count;
    ASSERT_EQ(got[0].kind(), MEMPROF_EVENT_BATCH);
    const auto& batch = got[0].as<memprof_batch>();
    EXPECT_EQ(batch.header.tgid, static_cast<std::uint32_t>(target_->pid()));
    EXPECT_EQ(batch.header.tid, static_cast<std::uint32_t>(tid));
    EXPECT_EQ(batch.first_seq, seq);
    EXPECT_EQ(batch.generation, 77u);
    EXPECT_EQ(batch.buffer, 5u);
    ASSERT_EQ(batch.count, count);
    ASSERT_GE(got[0].bytes.size(), sizeof(batch) + count * sizeof(memprof_record));
    EXPECT_EQ(std::memcmp(batch.records, records, count * sizeof(memprof_record)), 0) << count;
    seq += count;
  }
  EXPECT_EQ(side->counters().counts[MEMPROF_COUNT_BATCHES], 10u);
}

TEST_F(KernelSideTest, PackedBatchesArriveByteExact) {
  auto side = load(config());
  attach_all(*side);
  std::mt19937_64 random(2);
  auto& records = target_->shared().records;
  for (auto& record : records) record = {random(), random(), random(), 0, 0};
  const auto address = reinterpret_cast<std::uint64_t>(records);
  constexpr std::uint32_t kAll = (sizeof records - sizeof(memprof_packed_head)) / sizeof(__u32);
  static_assert(kAll > 4000);  // one of the largest class
  for (const std::uint32_t words : {0u, 1u, 100u, 101u, 1000u, 1001u, 4000u, kAll}) {
    target_->batch(address, words, 9, 77, 5, MEMPROF_BATCH_PACKED);
    const auto got = take(side);
    ASSERT_EQ(got.size(), 1u) << words;
    ASSERT_EQ(got[0].kind(), MEMPROF_EVENT_PACKED);
    const auto& batch = got[0].as<memprof_packed_batch>();
    EXPECT_EQ(batch.first_seq, 9u);
    EXPECT_EQ(batch.generation, 77u);
    EXPECT_EQ(batch.buffer, 5u);
    ASSERT_EQ(batch.n_words, words);
    const std::size_t bytes = sizeof(memprof_packed_head) + words * sizeof(__u32);
    ASSERT_GE(got[0].bytes.size(), offsetof(memprof_packed_batch, packed) + bytes);
    EXPECT_EQ(std::memcmp(&batch.packed, records, bytes), 0) << words;
  }
  target_->batch(address, MEMPROF_PACKED_WORDS + 1, 0, 1, 0, MEMPROF_BATCH_PACKED);
  target_->batch(address, 1, 0, 1, MEMPROF_BUFFERS, MEMPROF_BATCH_PACKED);
  target_->batch(16, 3, 0, 1, 0, MEMPROF_BATCH_PACKED);
  EXPECT_EQ(take(side).size(), 0u);
  EXPECT_EQ(side->counters().drops[MEMPROF_DROP_BATCH_BAD_COUNT], 2u);
  EXPECT_EQ(side->counters().drops[MEMPROF_DROP_BATCH_UNREADABLE], 1u);
}

TEST_F(KernelSideTest, BadBatchesAreCounted) {
  auto side = load(config());
  attach_all(*side);
  const auto records = reinterpret_cast<std::uint64_t>(target_->shared().records);
  target_->batch(records, MEMPROF_BATCH_RECORDS + 1, 0, 1);
  target_->batch(records, 0xFFFFFFFF, 0, 1);
  target_->batch(records, 1, 0, 1, MEMPROF_BUFFERS);
  target_->batch(records, 1, 0, 1, 0, MEMPROF_BATCH_PACKED + 1);
  target_->batch(16, 3, 0, 1);
  EXPECT_EQ(take(side).size(), 0u);
  EXPECT_EQ(side->counters().drops[MEMPROF_DROP_BATCH_BAD_COUNT], 4u);
  EXPECT_EQ(side->counters().drops[MEMPROF_DROP_BATCH_UNREADABLE], 1u);
}

TEST_F(KernelSideTest, WalksEqualTheReference) {
  auto side = load(config());
  attach_all(*side);
  std::mt19937_64 random(42);
  for (int i = 0; i < 300; ++i) {
    const auto chunks = random_chunks(random, functions_, static_cast<int>(random() % 1500));
    const auto stack = place(chunks);
    const ReferenceWalk reference = reference_walk(program_, stack, 20000);
    target_->collect(i % 3 - 1);
    const auto got = take(side);
    ASSERT_EQ(got.size(), 1u);
    const auto& capture = got[0].as<memprof_capture>();
    ASSERT_EQ(got[0].frames(), reference.frames) << "stack " << i;
    EXPECT_EQ(capture.flags, reference.flags);
    EXPECT_EQ(capture.alloc_idx, i % 3 - 1);
    EXPECT_EQ(capture.n_frames, reference.frames.size());
  }
}

TEST_F(KernelSideTest, DeepStacksAreCutAtTheCaps) {
  auto settings = config();
  settings.max_frames = 12000;
  auto side = load(settings);
  attach_all(*side);
  const SyntheticFrame f = functions_[0], g = functions_[1];
  place({SyntheticChunk(15000, f)});
  target_->collect(0);
  SyntheticChunk alternating;
  for (int i = 0; i < 9000; ++i) alternating.push_back(i % 2 == 0 ? f : g);
  place({alternating});
  target_->collect(0);
  const auto got = take(side);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].frames(), std::vector<std::uint64_t>(12000, f.pc));
  EXPECT_EQ(got[0].as<memprof_capture>().n_entries, 2u);
  EXPECT_EQ(got[0].as<memprof_capture>().flags, MEMPROF_CAPTURE_TRUNCATED);
  EXPECT_EQ(got[1].frames().size(), MEMPROF_MAX_STACK_ENTRIES);
  EXPECT_EQ(got[1].as<memprof_capture>().flags, MEMPROF_CAPTURE_TRUNCATED);
}

TEST_F(KernelSideTest, SlotsHaveRoomForTheFramesThatAreKept) {
  auto settings = config();
  settings.max_frames = 90;
  auto side = load(settings);
  attach_all(*side);
  const auto all = functions_.begin();
  for (const auto& chunk : {SyntheticChunk(all, all + 90), SyntheticChunk(all + 90, all + 181)}) {
    place({chunk});
    target_->collect(0);
  }
  const auto got = take(side);
  ASSERT_EQ(got.size(), 2u);
  for (const auto& capture : got) EXPECT_EQ(capture.frames().size(), 90u);
  EXPECT_EQ(got[0].as<memprof_capture>().flags, 0u);
  EXPECT_EQ(got[1].as<memprof_capture>().flags, MEMPROF_CAPTURE_TRUNCATED);
}

TEST_F(KernelSideTest, RepeatedStackIsSentAsItsId) {
  auto side = load(config());
  attach_all(*side);
  place({{functions_[3], functions_[4]}});
  for (int i = 0; i < 3; ++i) target_->collect(0);
  target_->collect(1);
  const auto got = take(side);
  ASSERT_EQ(got.size(), 4u);
  const std::vector<std::uint64_t> frames{functions_[3].pc, functions_[4].pc};
  EXPECT_EQ(got[0].frames(), frames);
  EXPECT_EQ(got[3].frames(), frames);
  for (int i : {1, 2}) {
    EXPECT_EQ(got[i].as<memprof_capture>().n_entries, 0u);
    EXPECT_EQ(got[i].as<memprof_capture>().n_frames, 2u);
    EXPECT_EQ(got[i].as<memprof_capture>().stack_id, got[0].as<memprof_capture>().stack_id);
  }
  EXPECT_NE(got[3].as<memprof_capture>().stack_id, got[0].as<memprof_capture>().stack_id);
  EXPECT_EQ(side->counters().counts[MEMPROF_COUNT_CAPTURES], 4u);
  EXPECT_EQ(side->counters().counts[MEMPROF_COUNT_STACKS_SENT], 2u);
}

TEST_F(KernelSideTest, CallersAreToldApart) {
  auto side = load(config());
  attach_all(*side);
  place({{functions_[0]}});
  target_->collect(-1, Caller::kUser);
  target_->collect(-1, Caller::kInterned);
  target_->collect(-1, Caller::kMemprof);
  const auto got = take(side);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].as<memprof_capture>().flags, MEMPROF_CAPTURE_INTERNED);
  EXPECT_EQ(got[1].as<memprof_capture>().flags, 0u);
  EXPECT_EQ(side->counters().counts[MEMPROF_COUNT_USER_CALLSTACKS], 1u);
}

TEST_F(KernelSideTest, OtherThreadsAreTheTargetToo) {
  auto side = load(config());
  attach_all(*side);
  place({{functions_[0]}});
  const int tid = target_->collect_on_new_thread(0);
  EXPECT_NE(tid, target_->pid());
  const auto got = take(side);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].kind(), MEMPROF_EVENT_CAPTURE);
  EXPECT_EQ(got[0].as<memprof_event_header>().tid, static_cast<std::uint32_t>(tid));
  EXPECT_EQ(got[1].kind(), MEMPROF_EVENT_LIFECYCLE);
  EXPECT_EQ(got[1].as<memprof_lifecycle>().what, MEMPROF_LIFECYCLE_THREAD_EXIT);
  EXPECT_EQ(got[1].as<memprof_event_header>().tid, static_cast<std::uint32_t>(tid));
}

TEST_F(KernelSideTest, OtherProcessesAreNot) {
  ProbeTarget other;
  auto side = load(config());
  attach_all(*side);
  place({{functions_[0]}});
  other.collect(0);
  other.batch(0, 0, 0, 1);
  other.collect_on_new_thread(0);
  EXPECT_EQ(other.semaphore(), 0);
  EXPECT_EQ(take(side).size(), 0u);
  target_->collect(0);
  EXPECT_EQ(take(side).size(), 1u);
}

TEST_F(KernelSideTest, ThreadsOfAPidNamespaceKeepTheirOwnNumbers) {
  target_ = std::make_unique<ProbeTarget>(true);
  auto side = load(config());
  attach_all(*side);
  place({{functions_[0]}});
  EXPECT_EQ(target_->collect(0), 1);
  const auto got = take(side);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].as<memprof_event_header>().tid, 1u);
  EXPECT_EQ(got[0].as<memprof_event_header>().tgid, static_cast<std::uint32_t>(target_->pid()));
}

TEST_F(KernelSideTest, LossesInAFullRingAreCountedAndAnnounced) {
  auto settings = config();
  settings.ring_bytes = 256u << 10;
  auto side = load(settings);
  attach_all(*side);
  const auto records = reinterpret_cast<std::uint64_t>(target_->shared().records);
  for (std::uint64_t i = 0; i < 20; ++i) target_->batch(records, MEMPROF_BATCH_RECORDS, i, 1);
  const auto used = side.ring->used_bytes();
  EXPECT_EQ(side.ring->total_bytes(), 256u << 10);
  EXPECT_GT(used, 230u << 10);
  // Small batches fill the rest; then not even a capture fits.
  for (std::uint64_t i = 0; i < 2000; ++i) target_->batch(records, 0, i, 1);
  place({{functions_[0], functions_[1]}});
  for (int i = 0; i < 3; ++i) target_->collect(0);
  const KernelCounters full = side->counters();
  EXPECT_EQ(full.drops[MEMPROF_DROP_CAPTURE_RING_FULL], 3u);
  EXPECT_EQ(full.counts[MEMPROF_COUNT_BATCHES] + full.drops[MEMPROF_DROP_BATCH_RING_FULL], 2020u);
  EXPECT_EQ(take(side).size(), full.counts[MEMPROF_COUNT_BATCHES]);
  EXPECT_EQ(side.ring->used_bytes(), 0u);

  // The refused stack was not taken for sent.
  target_->collect(0);
  target_->batch(records, 1, 0, 1);
  const auto got = take(side);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].frames().size(), 2u);
  EXPECT_EQ(got[0].as<memprof_capture>().captures_dropped, 3u);
  EXPECT_EQ(got[1].as<memprof_event_header>().captures_dropped, 3u);
}

TEST_F(KernelSideTest, RingBecomesReadableAtAQuarterOnly) {
  auto settings = config();
  settings.ring_bytes = 256u << 10;
  auto side = load(settings);
  attach_all(*side);
  const auto records = reinterpret_cast<std::uint64_t>(target_->shared().records);
  const auto wait = [&](int milliseconds) {
    epoll_event event;
    return epoll_wait(side.ring->epoll_fd(), &event, 1, milliseconds);
  };
  for (std::uint64_t i = 0; i < 4; ++i) target_->batch(records, 512, i, 1);
  EXPECT_LT(side.ring->used_bytes(), 66u << 10);
  EXPECT_EQ(wait(0), 0);
  for (std::uint64_t i = 0; i < 2; ++i) target_->batch(records, 512, i, 1);
  EXPECT_EQ(wait(10000), 1);
  EXPECT_EQ(take(side).size(), 6u);
}

TEST_F(KernelSideTest, UnreadableStateIsCounted) {
  auto settings = config();
  settings.domain_state = 0x1000;
  auto side = load(settings);
  attach_all(*side);
  target_->collect(0);
  EXPECT_EQ(take(side).size(), 0u);
  EXPECT_EQ(side->counters().drops[MEMPROF_DROP_CAPTURE_NO_STATE], 1u);
}

TEST_F(KernelSideTest, FramesAddedLaterAreWalked) {
  auto side = load(config());
  attach_all(*side);
  const SyntheticFrame loaded{0x7f1234567890, 32};
  place({{loaded, functions_[0]}});
  target_->collect(0);
  SyntheticProgram plugin;
  plugin.add({{loaded}});
  ASSERT_EQ(side->add_frames({4, plugin.slots(4)}), absl::OkStatus());
  target_->collect(0);
  const auto got = take(side);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].as<memprof_capture>().flags, MEMPROF_CAPTURE_BROKEN);
  EXPECT_EQ(got[0].as<memprof_capture>().n_frames, 0u);
  EXPECT_EQ(got[1].frames(), (std::vector<std::uint64_t>{loaded.pc, functions_[0].pc}));
}

TEST_F(KernelSideTest, LifecycleIsReported) {
  auto side = load(config());
  attach_all(*side);
  target_->register_frametable();
  target_->exec();
  target_->wait_for_end();
  std::vector<std::uint32_t> seen;
  for (const auto& record : take(side)) {
    ASSERT_EQ(record.kind(), MEMPROF_EVENT_LIFECYCLE);
    seen.push_back(record.as<memprof_lifecycle>().what);
  }
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{MEMPROF_LIFECYCLE_FRAMETABLE, MEMPROF_LIFECYCLE_EXEC,
                                              MEMPROF_LIFECYCLE_THREAD_EXIT}));
}

TEST_F(KernelSideTest, ErrorsNameTheThing) {
  const KernelFrameTable table{10, program_.slots(10)};
  auto settings = config();
  settings.last_return_address_offset = 24;
  EXPECT_EQ(KernelSide::load(settings, table).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(KernelSide::load(config(), {11, program_.slots(10)}).status().code(),
            absl::StatusCode::kInvalidArgument);
  settings = config();
  settings.pid = 1 << 22;  // beyond pid_max
  EXPECT_EQ(KernelSide::load(settings, table).status().code(), absl::StatusCode::kNotFound);

  auto side = load(config());
  const auto status = side->probes().attach(
      Probe::kCapture,
      {.file = std::make_shared<const UniqueFd>(::dup(side.ring->epoll_fd())), .offset = 0x10});
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("the capture probe to pid "), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find(" at file offset 0x10"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace memprofd
