// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/shared_agent.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "tests/kit/packed_batch.h"
#include "tests/kit/sharing_agent.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kRing = 8192;

class SharedAgentTest : public ::testing::Test {
 protected:
  SharedAgentTest()
      : reader_(SharedAgent::create({.rate = 0.01, .ring_bytes = kRing}).value()),
        agent_(reader_.descriptor(), kRing) {
    pipeline_.expect({});
    pipeline_.begin_session(1, 0.01);
  }

  // The announcement and a batch of that many allocations; returns the number of the next record.
  RingRecord batch(std::uint64_t first_seq, int allocations) {
    PackedBatch packed(1000, first_seq);
    for (int i = 0; i < allocations; ++i) packed.alloc(1, 1, 0, {PackedBatch::kBase + 0x100});
    return packed.event(first_seq, 1);
  }
  std::uint64_t allocations() const { return pipeline_.alloc_events(); }

  SharedAgent reader_;
  testing::SharingAgent agent_;
  Pipeline pipeline_;
};

TEST_F(SharedAgentTest, TheMemoryCannotChangeItsSize) {
  EXPECT_NE(::ftruncate(reader_.descriptor(), 0), 0);
  EXPECT_NE(::ftruncate(reader_.descriptor(), 1 << 30), 0);
  EXPECT_EQ(::fcntl(reader_.descriptor(), F_GETFD) & FD_CLOEXEC, 0) << "the program inherits it";
}

TEST_F(SharedAgentTest, ToldWhoHasTakenIt) {
  EXPECT_FALSE(reader_.taker().has_value());
  EXPECT_FALSE(reader_.status().ok());
  reader_.renew();
  agent_.take(4242, "/usr/bin/server");
  agent_.head().callback_exn = 0x5555;
  const auto taker = reader_.taker();
  ASSERT_TRUE(taker.has_value());
  EXPECT_EQ(taker->pid, 4242);
  EXPECT_EQ(taker->exe, "/usr/bin/server");
  EXPECT_EQ(taker->callback_exn, 0x5555u);
  EXPECT_EQ(reader_.status()->state, MEMPROF_AGENT_SAMPLING);
  std::memset(agent_.head().exe, 'x', sizeof agent_.head().exe);
  EXPECT_EQ(reader_.taker()->exe, "") << "no end";
}

TEST_F(SharedAgentTest, LeaseAndOffsetsReachTheAgent) {
  reader_.set_offsets({.memprof = 496});
  EXPECT_EQ(agent_.head().offsets.memprof, 496u);
  agent_.take(1, "a");
  const std::uint64_t before = agent_.head().until_ns;
  reader_.renew();
  reader_.set_offsets({.memprof = 504});
  EXPECT_GE(agent_.head().until_ns, before);
  EXPECT_GE(agent_.control().requested_until_ns, before);
  EXPECT_EQ(agent_.control().offsets.memprof, 504u);
}

// Many times around the ring, in pieces that do not divide it.
TEST_F(SharedAgentTest, AllThatIsPutIsTold) {
  agent_.take(1, "a");
  ASSERT_TRUE(agent_.put(batch(0, 0).bytes()));
  std::uint64_t seq = 0;
  for (int round = 0; round < 500; ++round) {
    const int n = 1 + round % 40;
    ASSERT_TRUE(agent_.put(batch(seq, n).bytes())) << round;
    seq += static_cast<std::uint64_t>(n);
    reader_.drain(pipeline_);
    ASSERT_EQ(allocations(), seq) << round;
  }
  EXPECT_GT(agent_.head().read, 10 * kRing);
  EXPECT_EQ(agent_.head().read, agent_.head().written);
  EXPECT_FALSE(reader_.damaged());
  EXPECT_EQ(pipeline_.drops().lost(), 0u);
}

TEST_F(SharedAgentTest, UnfinishedBatchesAreRead) {
  agent_.take(1, "a");
  ASSERT_TRUE(agent_.put(batch(0, 0).bytes()));
  PackedBatch packed(1000, 0);
  packed.alloc(1, 1, 0, {PackedBatch::kBase + 0x100}).alloc(2, 1, 1, {});
  memprof_batch_buffer& buffer = agent_.buffer(0);
  buffer = {.first_seq = 0,
            .count = 2,
            .generation = 1,
            .last_sample = 2,
            .words = static_cast<std::uint32_t>(packed.words.size()),
            .format = MEMPROF_BATCH_PACKED};
  buffer.packed.head = packed.head;
  std::memcpy(buffer.packed.words, packed.words.data(), packed.words.size() * 4);
  reader_.drain(pipeline_);
  EXPECT_EQ(allocations(), 0u);
  reader_.catch_up(pipeline_);
  reader_.catch_up(pipeline_);
  EXPECT_EQ(allocations(), 2u) << "once";
}

// The memory that the agent of a running program makes.
UniqueFd memory_of_running(std::size_t bytes, int seals) {
  UniqueFd file(::memfd_create("memprof-share", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  if (seals != 0) {
    EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
  }
  return file;
}
constexpr std::size_t kOfRunning = MEMPROF_SHARE_RING + MEMPROF_SHARE_RING_BYTES;
constexpr int kBothSizes = F_SEAL_SHRINK | F_SEAL_GROW;

TEST(AdoptedMemory, ItsSessionIsTheReaders) {
  auto reader = SharedAgent::adopt(memory_of_running(kOfRunning, kBothSizes));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_FALSE(reader->begin_session(0.01, {}).ok()) << "not taken yet";
  testing::SharingAgent agent(reader->descriptor(), MEMPROF_SHARE_RING_BYTES);
  agent.take(1, "a");
  agent.control().requested_generation = 7;
  agent.buffer(0) = {.first_seq = 12, .last_sample = 5};
  const auto positions = reader->positions();
  ASSERT_EQ(positions.size(), 1u);
  EXPECT_EQ(positions[0].records, 12u);
  EXPECT_EQ(positions[0].sampled, 5u);
  const auto generation = reader->begin_session(0.01, {.memprof = 496});
  ASSERT_TRUE(generation.ok()) << generation.status();
  EXPECT_EQ(*generation, 8u);
  EXPECT_EQ(agent.control().requested_generation, 8u);
  EXPECT_EQ(agent.control().requested_rate, 0.01);
  EXPECT_EQ(agent.control().offsets.memprof, 496u);
  EXPECT_NE(agent.head().owner[0], 0u);
  EXPECT_EQ(agent.head().owner[0], agent.control().owner[0]);
  EXPECT_EQ(agent.head().owner[1], agent.control().owner[1]);
}

TEST(AdoptedMemory, TheNextReaderGetsAGenerationToo) {
  auto reader = SharedAgent::adopt(memory_of_running(kOfRunning, kBothSizes));
  ASSERT_TRUE(reader.ok()) << reader.status();
  testing::SharingAgent agent(reader->descriptor(), MEMPROF_SHARE_RING_BYTES);
  agent.take(1, "a");
  const auto generation = reader->begin_session(0.01, {});
  ASSERT_TRUE(generation.ok()) << generation.status();
  reader->end_session();
  EXPECT_EQ(agent.control().requested_rate, 0);
  EXPECT_GT(reader->status()->next_generation(), *generation) << "0 would be no session";
}

// A program may put anything under that number.
TEST(AdoptedMemory, WhatCouldEndTheReaderIsRefused) {
  EXPECT_TRUE(absl::IsDataLoss(SharedAgent::adopt(memory_of_running(kOfRunning, 0)).status()));
  EXPECT_TRUE(
      absl::IsDataLoss(SharedAgent::adopt(memory_of_running(kOfRunning, F_SEAL_GROW)).status()));
  EXPECT_TRUE(absl::IsDataLoss(
      SharedAgent::adopt(memory_of_running(kOfRunning - 4096, kBothSizes)).status()));
  UniqueFd ends[2];
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  ends[0].reset(pipe[0]);
  ends[1].reset(pipe[1]);
  EXPECT_TRUE(absl::IsDataLoss(SharedAgent::adopt(std::move(ends[0])).status()));
}

// Data that a program can write there, but no agent writes.
TEST_F(SharedAgentTest, DamageEndsTheReading) {
  const auto whole = batch(0, 3);
  const std::vector<std::pair<const char*, std::function<void(testing::SharingAgent&)>>> cases = {
      {"an event longer than any",
       [](testing::SharingAgent& agent) { agent.set_word(0, sizeof(memprof_packed_batch) + 8); }},
      {"an event behind what is written",
       [](testing::SharingAgent& agent) { agent.set_word(0, agent.head().written); }},
      {"an event behind the ring's end",
       [](testing::SharingAgent& agent) {
         agent.set_word(0, kRing);
         agent.head().written = kRing;
       }},
      {"a length that wraps", [](testing::SharingAgent& agent) { agent.set_word(0, ~0ull - 7); }},
      {"a skip behind what is written",
       [](testing::SharingAgent& agent) { agent.set_word(0, MEMPROF_SHARE_SKIP); }},
      {"more than the ring holds",
       [](testing::SharingAgent& agent) { agent.head().written = kRing + 8; }},
      {"back", [](testing::SharingAgent& agent) { agent.head().written = ~0ull - 7; }},
      {"not aligned", [](testing::SharingAgent& agent) { agent.head().written -= 1; }},
  };
  for (const auto& [what, damage] : cases) {
    SharedAgent reader = SharedAgent::create({.rate = 0.01, .ring_bytes = kRing}).value();
    testing::SharingAgent agent(reader.descriptor(), kRing);
    Pipeline pipeline;
    pipeline.begin_session(1, 0.01);
    agent.take(1, "a");
    ASSERT_TRUE(agent.put(whole.bytes()));
    damage(agent);
    reader.drain(pipeline);
    EXPECT_TRUE(reader.damaged()) << what;
    EXPECT_EQ(pipeline.alloc_events(), 0u) << what;
    agent.put(whole.bytes());
    reader.catch_up(pipeline);
    EXPECT_EQ(pipeline.alloc_events(), 0u) << what;
  }
}

TEST_F(SharedAgentTest, AnEventOfNoBytesIsPassedOver) {
  agent_.take(1, "a");
  ASSERT_TRUE(agent_.put({}));
  ASSERT_TRUE(agent_.put(batch(0, 3).bytes()));
  reader_.drain(pipeline_);
  EXPECT_EQ(allocations(), 3u);
  EXPECT_EQ(pipeline_.drops().total(), 1u);
}

// Parts of the agent's data at claimed other addresses are not read.
TEST_F(SharedAgentTest, AddressesOutsideAreRefused) {
  agent_.take(1, "a");
  agent_.head().control = 8;
  EXPECT_TRUE(reader_.status().ok()) << "the place is ours, whatever its address";
  agent_.head().control = ~0ul;
  EXPECT_FALSE(reader_.status().ok()) << "the end of the address space is in it";
  agent_.head().control = testing::SharingAgent::kControl;
  for (const std::uint64_t buffers : {1ul, ~0ul, ~0ul - 4096}) {
    agent_.control().buffers = buffers;
    reader_.catch_up(pipeline_);
    EXPECT_EQ(allocations(), 0u);
  }
}

}  // namespace
}  // namespace memprofd
