// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/agent_owner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "daemon/discover/target_memory.h"

namespace memprofd {
namespace {

// Another process, until it is ended.
class OtherProcess {
 public:
  OtherProcess() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  ~OtherProcess() { end(); }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  int pid() const { return pid_; }

 private:
  int pid_;
};

class AgentOwnerTest : public ::testing::Test {
 protected:
  absl::Status claim() { return claim_agent(agent_, ::getpid()); }
  void belongs_to(const OwnerToken& token) {
    block_.owner[0] = token.boot_and_pid;
    block_.owner[1] = token.start_ticks;
  }
  OwnerToken owner() const { return {block_.owner[0], block_.owner[1]}; }

  memprof_agent_control block_ = {};
  std::unique_ptr<TargetMemory> memory_ = TargetMemory::open(::getpid()).value();
  AgentControl agent_{::getpid(), *memory_, reinterpret_cast<std::uint64_t>(&block_)};
  OtherProcess other_;
};

TEST_F(AgentOwnerTest, WhatIsNobodysIsTakenAndGivenBack) {
  ASSERT_TRUE(claim().ok());
  EXPECT_EQ(owner(), OwnerToken::ours());
  EXPECT_TRUE(claim().ok());
  release_agent(agent_);
  EXPECT_EQ(owner(), OwnerToken());
}

TEST_F(AgentOwnerTest, OneThatLivesKeepsItAndIsNamed) {
  const OwnerToken theirs = OwnerToken::of(other_.pid());
  belongs_to(theirs);
  const absl::Status refused = claim();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()),
              ::testing::HasSubstr("memprofd (pid " + std::to_string(other_.pid()) + ")"));
  release_agent(agent_);
  EXPECT_EQ(owner(), theirs);
}

TEST_F(AgentOwnerTest, TheTokenOfTheDeadIsTakenOver) {
  belongs_to(OwnerToken::of(other_.pid()));
  other_.end();
  ASSERT_TRUE(claim().ok());
  EXPECT_EQ(owner(), OwnerToken::ours());
}

TEST_F(AgentOwnerTest, APidOfAnotherTimeOrAnotherBootIsNobody) {
  OwnerToken token = OwnerToken::of(other_.pid());
  ++token.start_ticks;
  EXPECT_FALSE(living_owner(token).has_value());
  token = OwnerToken::of(other_.pid());
  token.boot_and_pid ^= std::uint64_t{1} << 40;
  EXPECT_FALSE(living_owner(token).has_value());
  EXPECT_FALSE(living_owner({~std::uint64_t{0}, ~std::uint64_t{0}}).has_value());
  EXPECT_EQ(living_owner(OwnerToken::of(other_.pid())), other_.pid());
}

TEST_F(AgentOwnerTest, WhoClaimedLaterAtTheSameMomentIsSeen) {
  ASSERT_TRUE(claim_agent(agent_, ::getpid()).ok());
  EXPECT_TRUE(check_claim(agent_, ::getpid()).ok());
  belongs_to(OwnerToken::of(other_.pid()));
  EXPECT_EQ(check_claim(agent_, ::getpid()).code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace memprofd
