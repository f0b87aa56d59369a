// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/agent_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>

#include "daemon/discover/target_memory.h"
#include "daemon/util/clock.h"
#include "tests/kit/asked_memory.h"

namespace memprofd {
namespace {

using ::testing::HasSubstr;

// Reads this process's own memory; on_read runs before each read, as a target
// that goes on while it is being looked at.
class OwnMemory : public WritableMemory {
 public:
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    if (on_read) on_read(++reads);
    return memory->read(address, out);
  }
  absl::Status write(std::uint64_t address, std::span<const std::byte> bytes) const override {
    return memory->write(address, bytes);
  }
  std::function<void(int)> on_read;
  mutable int reads = 0;
  std::unique_ptr<TargetMemory> memory = TargetMemory::open(getpid()).value();
};

class AgentControlTest : public ::testing::Test {
 protected:
  AgentControlTest() {
    block_.magic = MEMPROF_AGENT_MAGIC;
    block_.abi_version = MEMPROF_AGENT_ABI;
    block_.control_bytes = sizeof(block_);
    block_.buffer_bytes = sizeof(memprof_batch_buffer);
    block_.buffer_count = MEMPROF_BUFFERS;
    block_.domain_bytes = sizeof(memprof_domain);
    block_.domain_count = MEMPROF_DOMAINS;
    block_.domains = reinterpret_cast<std::uint64_t>(domains_.data());
    block_.buffers = reinterpret_cast<std::uint64_t>(buffers_.data());
  }
  AgentControl control() {
    return AgentControl(getpid(), memory_, reinterpret_cast<std::uint64_t>(&block_));
  }

  memprof_agent_control block_ = {};
  std::vector<memprof_domain> domains_ = std::vector<memprof_domain>(MEMPROF_DOMAINS);
  std::vector<memprof_batch_buffer> buffers_ = std::vector<memprof_batch_buffer>(MEMPROF_BUFFERS);
  OwnMemory memory_;
};

TEST_F(AgentControlTest, ReadsTheStatus) {
  block_.state = MEMPROF_AGENT_SAMPLING;
  block_.rate = 1e-4;
  block_.generation = 7;
  block_.requested_generation = 8;
  block_.starts = 3;
  block_.stops = 2;
  block_.pauses[MEMPROF_GC_MAJOR_SLICE].count[5] = 11;
  const auto status = control().status();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->state, MEMPROF_AGENT_SAMPLING);
  EXPECT_EQ(status->rate, 1e-4);
  EXPECT_EQ(status->generation, 7u);
  EXPECT_EQ(status->requested_generation, 8u);
  EXPECT_EQ(status->starts, 3u);
  EXPECT_EQ(status->stops, 2u);
  EXPECT_EQ(status->pauses[MEMPROF_GC_MAJOR_SLICE].count[5], 11u);
}

TEST_F(AgentControlTest, AnIdleProgramIsAskedSeldom) {
  block_.buffers_used = 3;
  const AskedMemory memory(memory_);
  const AgentControl control = this->control().through(memory);
  ASSERT_TRUE(control.status().ok());
  EXPECT_EQ(memory.times, 1);
  const auto tails = control.tails();
  ASSERT_TRUE(tails.ok()) << tails.status();
  EXPECT_EQ(tails->size(), 3u);
  EXPECT_EQ(memory.times, 3) << "the block, and all buffers";
}

TEST_F(AgentControlTest, ABatchThatIsBeingFilledIsAskedForOnce) {
  block_.buffers_used = 2;
  buffers_[0].count = 2;
  buffers_[1].count = 2;
  buffers_[1].words = 5;
  buffers_[1].format = MEMPROF_BATCH_PACKED;
  const AskedMemory memory(memory_);
  const auto tails = control().through(memory).tails();
  ASSERT_TRUE(tails.ok()) << tails.status();
  EXPECT_EQ(tails->size(), 2u);
  EXPECT_EQ(memory.times, 4) << "the block, all buffers, and each batch";
}

TEST_F(AgentControlTest, RefusesAnotherBuild) {
  block_.abi_version = MEMPROF_AGENT_ABI + 1;
  const auto status = control().status();
  EXPECT_EQ(status.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.status().message()), HasSubstr("agent of another build"));
}

TEST_F(AgentControlTest, AnAgentOfTheInterfaceBeforeFollowsOneSession) {
  block_.followed_since = 9;
  EXPECT_EQ(control().status()->followed_since, 9u);
  block_.abi_version = MEMPROF_AGENT_ABI - 1;
  EXPECT_FALSE(control().status().ok()) << "its block is shorter";
  block_.control_bytes = offsetof(memprof_agent_control, followed_since);
  block_.generation = 4;
  const auto status = control().status();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->generation, 4u);
  EXPECT_EQ(status->followed_since, std::nullopt);
}

TEST_F(AgentControlTest, RefusesWhatIsNoControlBlock) {
  block_.magic = 0;
  EXPECT_FALSE(control().status().ok());
  block_.magic = MEMPROF_AGENT_MAGIC;
  block_.control_bytes -= 8;
  EXPECT_FALSE(control().status().ok());
  block_.control_bytes += 8;
  block_.buffer_bytes -= 8;
  EXPECT_FALSE(control().status().ok());
  block_.buffer_bytes += 8;
  block_.buffer_count -= 1;
  EXPECT_FALSE(control().status().ok());
  block_.buffer_count += 1;
  EXPECT_TRUE(control().status().ok());
  EXPECT_FALSE(AgentControl(getpid(), memory_, 16).status().ok());
}

TEST_F(AgentControlTest, ReadsTheUnflushedTail) {
  block_.buffers_used = 4;
  memprof_batch_buffer& first = buffers_[0];
  first = {.first_seq = 100, .count = 2, .generation = 4, .last_sample = 0, .records = {}};
  first.records[0].sample_id = 41;
  first.records[1].sample_id = 42;
  buffers_[2].first_seq = 7;  // empty
  buffers_[2].last_sample = 5;
  buffers_[3] = {.first_seq = 9, .count = 1, .generation = 5, .last_sample = 0, .records = {}};
  buffers_[4].count = 1;  // not used
  const auto tails = control().tails();
  ASSERT_TRUE(tails.ok()) << tails.status();
  ASSERT_EQ(tails->size(), 4u);
  const AgentTail& tail = tails->front();
  EXPECT_EQ(tail.buffer, 0u);
  EXPECT_EQ(tail.first_seq, 100u);
  EXPECT_EQ(tail.generation, 4u);
  const auto& records = std::get<PlainTail>(tail.batch).records;
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].sample_id, 42u);
  EXPECT_EQ((*tails)[2].first_seq, 7u) << "how far it has come, without records";
  EXPECT_EQ((*tails)[2].sampled, 5u);
  EXPECT_TRUE(std::get<PlainTail>((*tails)[2].batch).records.empty());
  EXPECT_EQ(tails->back().buffer, 3u);
  EXPECT_EQ(tails->back().generation, 5u);
}

TEST_F(AgentControlTest, ReadsAPackedTail) {
  block_.buffers_used = 1;
  memprof_batch_buffer& buffer = buffers_[0];
  buffer.first_seq = 100;
  buffer.generation = 4;
  buffer.count = 2;
  buffer.words = 5;
  buffer.format = MEMPROF_BATCH_PACKED;
  buffer.packed.head.base_address = 0x5500;
  buffer.packed.words[4] = 55;
  const auto tails = control().tails();
  ASSERT_TRUE(tails.ok()) << tails.status();
  ASSERT_EQ(tails->size(), 1u);
  const auto& tail = std::get<PackedTail>(tails->front().batch);
  EXPECT_EQ(tail.head.records, 2u);
  EXPECT_EQ(tail.head.base_address, 0x5500u);
  ASSERT_EQ(tail.words.size(), 5u);
  EXPECT_EQ(tail.words[4], 55u);
  buffer.words = MEMPROF_PACKED_WORDS + 1;
  EXPECT_EQ(control().tails().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(AgentControlTest, ATailFlushedMeanwhileIsNotTaken) {
  block_.buffers_used = 1;
  buffers_[0].first_seq = 100;
  buffers_[0].count = 2;
  // After the head was read, the batch was flushed and its place reused.
  memory_.on_read = [&](int read) {
    if (read != 5) return;
    buffers_[0].count = 0;
    buffers_[0].first_seq = 102;
    buffers_[0].records[0].sample_id = 99;
  };
  const auto tails = control().tails();
  ASSERT_TRUE(tails.ok());
  EXPECT_TRUE(tails->empty());
}

TEST_F(AgentControlTest, AnAbsurdCountIsAnError) {
  block_.buffers_used = 1;
  buffers_[0].count = MEMPROF_BATCH_RECORDS + 1;
  EXPECT_EQ(control().tails().status().code(), absl::StatusCode::kDataLoss);
  buffers_[0].count = 0;
  block_.buffers_used = 1'000'000;
  EXPECT_TRUE(control().tails().ok());
}

// The program stands still meanwhile. Who sees the generation sees the session that it is of.
TEST_F(AgentControlTest, AllThatIsToldIsOneOrder) {
  const AskedMemory memory(memory_, &memory_);
  const AgentOrders orders{.owner = OwnerToken{3, 4},
                           .offsets = memprof_runtime_offsets{.external_interrupt = 256,
                                                              .memprof = 464,
                                                              .memprof_config = 64,
                                                              .stat_words = 384,
                                                              .shared_heap = 280,
                                                              .callstacks_stay = 0},
                           .session = SessionRequest{1e-3, 9, MEMPROF_CAPTURE_BY_AGENT}};
  ASSERT_TRUE(control().through(memory).give(orders).ok());
  EXPECT_EQ(memory.times, 1);
  EXPECT_EQ(memory.written.front(), reinterpret_cast<std::uint64_t>(block_.owner));
  EXPECT_EQ(memory.written.back(), reinterpret_cast<std::uint64_t>(&block_.requested_generation));
  EXPECT_EQ(block_.offsets.external_interrupt, 256u);
  EXPECT_EQ(block_.offsets.memprof_config, 64u);
  EXPECT_EQ(block_.requested_generation, 9u);
  EXPECT_EQ(control().status()->owner, (OwnerToken{3, 4}));
}

TEST(RuntimeOffsets, AreThoseOfTheRelease) {
  const memprof_runtime_offsets first = runtime_offsets(*runtime_abi_for("5.3.0"));
  const memprof_runtime_offsets next = runtime_offsets(*runtime_abi_for("5.4.1"));
  EXPECT_EQ(first.memprof, 464u);
  EXPECT_EQ(first.local_roots, 160u);
  EXPECT_EQ(first.callstacks_stay, 0u);
  EXPECT_EQ(next.local_roots, 192u);
  EXPECT_EQ(next.callstacks_stay, 1u);
}

TEST_F(AgentControlTest, WhatIsNotToldStays) {
  block_.requested_generation = 5;
  block_.offsets.memprof = 7;
  block_.owner[0] = 8;
  ASSERT_TRUE(control().give({}).ok());
  ASSERT_TRUE(control().give({.owner = OwnerToken{1, 2}}).ok());
  EXPECT_EQ(block_.requested_generation, 5u);
  EXPECT_EQ(block_.requested_until_ns, 0u);
  ASSERT_TRUE(control().give({.session = SessionRequest{.generation = 6}}).ok());
  EXPECT_EQ(block_.offsets.memprof, 7u);
  EXPECT_EQ(block_.owner[0], 1u);
}

TEST(AgentCapture, OneOfTheInterfaceBeforeDoesNotWalk) {
  AgentStatus agent;
  EXPECT_EQ(capture_known_to(agent, MEMPROF_CAPTURE_BY_AGENT), MEMPROF_CAPTURE_BY_RUNTIME);
  EXPECT_EQ(capture_known_to(agent, MEMPROF_CAPTURE_BY_KERNEL), MEMPROF_CAPTURE_BY_KERNEL);
  agent.followed_since = 0;
  EXPECT_EQ(capture_known_to(agent, MEMPROF_CAPTURE_BY_AGENT), MEMPROF_CAPTURE_BY_AGENT);
}

TEST_F(AgentControlTest, KnowsTheDomainsThatRun) {
  block_.domains_used = 140;
  domains_[0] = {.state = 0x1000, .heap_bytes = 7, .base_words = {}};
  domains_[139] = {.state = 0x2000, .heap_bytes = 8, .base_words = {1, 2, 3}};
  domains_[140].state = 0x3000;  // not used
  const auto status = control().status();
  ASSERT_TRUE(status.ok()) << status.status();
  const std::vector<DomainGc> domains = control().domains(*status);
  ASSERT_EQ(domains.size(), 2u);
  EXPECT_EQ(domains[0].state, 0x1000u);
  EXPECT_EQ(domains[1].heap_bytes, 8u);
  EXPECT_EQ(domains[1].base_words[2], 3u);
  block_.domains_used = 1'000'000;
  EXPECT_EQ(control().status()->domains_used, MEMPROF_DOMAINS);
}

TEST_F(AgentControlTest, RequestsARate) {
  ASSERT_TRUE(
      control().give({.session = SessionRequest{2e-5, 9, MEMPROF_CAPTURE_BY_RUNTIME}}).ok());
  EXPECT_EQ(block_.requested_rate, 2e-5);
  EXPECT_EQ(block_.requested_generation, 9u);
  EXPECT_EQ(block_.requested_capture, static_cast<std::uint32_t>(MEMPROF_CAPTURE_BY_RUNTIME));
  EXPECT_GT(block_.requested_until_ns, monotonic_ns());
  const std::uint64_t until = block_.requested_until_ns;
  ASSERT_TRUE(control().renew().ok());
  EXPECT_GT(block_.requested_until_ns, until);
}

}  // namespace
}  // namespace memprofd
