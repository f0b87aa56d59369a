// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/memory_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace memprofd {
namespace {

using Outcome = MemoryChannel::Outcome;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kShort{5};

// A channel whose server is the test.
class MemoryChannelTest : public ::testing::Test {
 protected:
  MemoryChannelTest() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    channel_ = std::make_unique<MemoryChannel>(UniqueFd(ends[0]));
    server_.reset(ends[1]);
  }
  // The request that has arrived; one of 0 bytes if there is none.
  MemoryRequest request() {
    MemoryRequest request;
    if (::recv(server_.get(), &request, sizeof request, MSG_DONTWAIT) < 0) return {};
    return request;
  }
  void answer(const MemoryRequest& request, const char* text, std::uint64_t blocked_ns = 0,
              std::uint64_t cpu_ns = 0) {
    struct {
      MemoryAnswer head;
      char text[8];
    } message{{request.number, blocked_ns, request.bytes, 0, cpu_ns}, {}};
    std::memcpy(message.text, text, request.bytes);
    ASSERT_GT(::send(server_.get(), &message, sizeof message.head + request.bytes, 0), 0);
  }
  Outcome read(std::array<char, 4>& out, std::chrono::nanoseconds patience) {
    return channel_->call({.address = 1, .bytes = 4}, {}, std::as_writable_bytes(std::span(out)),
                          last_, patience);
  }

  std::unique_ptr<MemoryChannel> channel_;
  UniqueFd server_;
  MemoryAnswer last_;
};

TEST_F(MemoryChannelTest, LateAnswerIsNotTakenForTheNext) {
  std::array<char, 4> first{'x', 'x', 'x', 'x'}, second{};
  EXPECT_EQ(read(first, kShort), Outcome::kLate);
  const MemoryRequest slow = request();
  EXPECT_EQ(slow.bytes, 4u);
  EXPECT_EQ(read(second, kShort), Outcome::kLate);
  EXPECT_EQ(request().bytes, 0u) << "nothing more is asked until that is answered";
  EXPECT_GT(channel_->silent_for(), kShort);
  answer(slow, "slow");
  answer({.number = slow.number + 1, .bytes = 4}, "next");
  EXPECT_EQ(read(second, seconds(10)), Outcome::kAnswered);
  EXPECT_EQ(std::string(second.data(), 4), "next");
  EXPECT_EQ(channel_->silent_for().count(), 0);
  EXPECT_EQ(std::string(first.data(), 4), "xxxx") << "a late answer writes nowhere";
}

TEST_F(MemoryChannelTest, AnUnfetchedAnswerIsNotSilence) {
  std::array<char, 4> out{};
  EXPECT_EQ(read(out, kShort), Outcome::kLate);
  EXPECT_GT(channel_->silent_for(), kShort);
  answer(request(), "late");
  EXPECT_EQ(channel_->silent_for().count(), 0);
}

TEST_F(MemoryChannelTest, WaitsNoLongerThanAllCallsMayTogether) {
  std::array<char, 4> out{};
  EXPECT_EQ(read(out, kShort), Outcome::kLate);
  // The answer claims that the file system took an hour, which uses up the waiting time.
  answer(request(), "slow", 3'600'000'000'000);
  EXPECT_EQ(read(out, seconds(3600)), Outcome::kLate);
  EXPECT_EQ(request().bytes, 4u);
}

// The server had no processor meanwhile.
TEST_F(MemoryChannelTest, TimeForWhichAServerWasNotBlockedIsReturned) {
  std::array<char, 4> out{};
  // The callers' waiting time is used up.
  while (read(out, seconds(1)) == Outcome::kLate && channel_->silent_for() < milliseconds(3'100)) {
  }
  answer(request(), "late");
  std::thread server([this] {
    MemoryRequest next;
    ASSERT_GT(::recv(server_.get(), &next, sizeof next, 0), 0);
    std::this_thread::sleep_for(milliseconds(200));
    answer(next, "next");
  });
  EXPECT_EQ(read(out, seconds(10)), Outcome::kAnswered);
  server.join();
}

TEST_F(MemoryChannelTest, CpuOfServersIsAddedUp) {
  const std::uint64_t before = MemoryChannel::servers_cpu_ns();
  for (const std::uint64_t cpu_ns : {3'000u, 10'000u}) {
    std::array<char, 4> out{};
    EXPECT_EQ(read(out, kShort), Outcome::kLate);
    answer(request(), "four", 0, cpu_ns);
    EXPECT_EQ(read(out, kShort), Outcome::kLate) << "fetches it, and asks again";
    answer(request(), "four", 0, cpu_ns);
  }
  EXPECT_EQ(MemoryChannel::servers_cpu_ns() - before, 10'000u);
}

TEST_F(MemoryChannelTest, EndOfTheServer) {
  server_.reset();
  std::array<char, 4> out{};
  EXPECT_EQ(read(out, seconds(10)), Outcome::kNoServer);
  EXPECT_EQ(read(out, seconds(10)), Outcome::kNoServer);
  EXPECT_GT(channel_->silent_for().count(), 0);
}

// The fork server reports it to each client.
TEST_F(MemoryChannelTest, AServerThatCouldNotBeForkedSaysWhy) {
  const MemoryAnswer refusal{.error = ENOMEM};
  ASSERT_GT(::send(server_.get(), &refusal, sizeof refusal, 0), 0);
  server_.reset();
  std::array<char, 4> out{};
  EXPECT_EQ(channel_->why_no_server(), 0);
  EXPECT_EQ(read(out, seconds(10)), Outcome::kNoServer);
  EXPECT_EQ(channel_->why_no_server(), ENOMEM);
  EXPECT_EQ(read(out, seconds(10)), Outcome::kNoServer);
  EXPECT_EQ(channel_->why_no_server(), ENOMEM);
}

TEST_F(MemoryChannelTest, StalledServersAreCountedUntilTheyEnd) {
  EXPECT_EQ(MemoryChannel::abandoned(), 0u);
  std::array<char, 4> out{};
  EXPECT_EQ(read(out, kShort), Outcome::kLate);
  channel_.reset();
  EXPECT_EQ(MemoryChannel::abandoned(), 1u);
  server_.reset();
  EXPECT_EQ(MemoryChannel::abandoned(), 0u);
}

TEST_F(MemoryChannelTest, AServerThatAnsweredIsNotAbandoned) {
  std::array<char, 4> out{};
  EXPECT_EQ(read(out, kShort), Outcome::kLate);
  answer(request(), "done");
  channel_.reset();
  EXPECT_EQ(MemoryChannel::abandoned(), 0u);
}

TEST(WaitBudget, ComesBackWithTheTimeThatPasses) {
  WaitBudget budget(100, 50);
  EXPECT_EQ(budget.left_ns(1000), 100u);
  EXPECT_EQ(budget.spend(70), 70u);
  EXPECT_EQ(budget.left_ns(1000), 30u);
  EXPECT_EQ(budget.left_ns(1500), 40u);
  EXPECT_EQ(budget.spend(1000), 40u);
  EXPECT_EQ(budget.left_ns(1500), 0u);
  EXPECT_EQ(budget.left_ns(1'000'000), 100u) << "no more than at first";
  EXPECT_EQ(budget.spend(60), 60u);
  budget.give_back(30);
  EXPECT_EQ(budget.left_ns(1'000'000), 70u);
  budget.give_back(70);
  EXPECT_EQ(budget.left_ns(1'000'000), 100u);
}

// Simulates a process that was stopped for an hour in its first turn.
TEST(WaitInTurns, AStoppedProcessContinuesToWait) {
  std::vector<milliseconds> turns;
  EXPECT_FALSE(wait_in_turns(seconds(3), [&](milliseconds turn) {
    turns.push_back(turn);
    return false;
  }));
  EXPECT_LE(turns.front(), milliseconds(150)) << "what an hour in it costs";
  EXPECT_EQ(std::accumulate(turns.begin(), turns.end(), milliseconds(0)), seconds(3));
  EXPECT_FALSE(wait_in_turns(milliseconds(0), [](milliseconds) { return true; }));
  int asked = 0;
  EXPECT_TRUE(wait_in_turns(milliseconds(5), [&](milliseconds) { return ++asked == 5; }));
}

TEST(ObservedSilence, GrowsOnlyWhileTheProcessRuns) {
  const ObservedSilence::Clock::time_point begin{seconds(1'000'000)};
  ObservedSilence heard;
  EXPECT_EQ(heard.so_far(begin, seconds(0)), seconds(0));
  EXPECT_EQ(heard.so_far(begin + milliseconds(100), milliseconds(50)), milliseconds(50));
  EXPECT_EQ(heard.so_far(begin + milliseconds(600), milliseconds(550)), milliseconds(550));
  // This process was stopped for an hour.
  EXPECT_EQ(heard.so_far(begin + seconds(3600), seconds(3600)), milliseconds(1550));
  EXPECT_EQ(heard.so_far(begin + milliseconds(3'600'100), milliseconds(80)), milliseconds(80))
      << "of another request";
}

}  // namespace
}  // namespace memprofd
