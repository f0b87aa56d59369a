// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/snapshot_hub.h"
#include "daemon/history/snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <thread>
#include <vector>

namespace memprofd {
namespace {

using namespace std::chrono_literals;

ProfileSnapshotPtr snapshot(int pid, std::uint64_t time_ns = 0) {
  auto result = std::make_shared<ProfileSnapshot>();
  result->info.pid = pid;
  result->time_ns = time_ns;
  return result;
}

// Polls as the ingest thread does until a reader waits.
void await_reader(SnapshotHub& hub) {
  while (!hub.wanted()) std::this_thread::yield();
}

TEST(SnapshotHubTest, LatestIsOrderedByPid) {
  SnapshotHub hub;
  EXPECT_TRUE(hub.latest().empty());
  hub.publish({snapshot(9), snapshot(3), snapshot(5)});
  const auto latest = hub.latest();
  ASSERT_EQ(latest.size(), 3u);
  EXPECT_EQ(latest[0]->info.pid, 3);
  EXPECT_EQ(latest[1]->info.pid, 5);
  EXPECT_EQ(latest[2]->info.pid, 9);
}

TEST(SnapshotHubTest, ReaderGetsAPublicationThatBeganAfterItAsked) {
  SnapshotHub hub;
  hub.publish({snapshot(1, 1)});
  EXPECT_FALSE(hub.wanted());
  auto reader = std::async(std::launch::async, [&] { return hub.fresh(1min); });
  await_reader(hub);
  hub.publish({snapshot(1, 2)});
  EXPECT_EQ(reader.get()[0]->time_ns, 2u);
  EXPECT_FALSE(hub.wanted());
}

TEST(SnapshotHubTest, PublicationThatBeganBeforeDoesNotAnswer) {
  SnapshotHub hub;
  EXPECT_FALSE(hub.wanted());  // gathering begins
  hub.fresh(0ms);              // a reader asks
  hub.publish({snapshot(1, 1)});
  EXPECT_TRUE(hub.wanted()) << "what was gathered before it asked is no answer";
  hub.publish({snapshot(1, 2)});
  EXPECT_FALSE(hub.wanted());
}

TEST(SnapshotHubTest, DeadlineGivesWhatThereIs) {
  SnapshotHub hub;
  hub.publish({snapshot(1, 1)});
  const auto result = hub.fresh(1ms);
  ASSERT_EQ(result.size(), 1u);
  EXPECT_EQ(result[0]->time_ns, 1u);
  EXPECT_TRUE(hub.wanted()) << "it asked";
}

TEST(SnapshotHubTest, ATargetOfTheLatestIsGivenAtTheDeadline) {
  SnapshotHub hub;
  hub.publish({snapshot(1, 1)});
  const auto result = hub.fresh_of(1, 1ms, 1min);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)->time_ns, 1u);
}

// The target may have been added since; only a publication shows this.
TEST(SnapshotHubTest, ATargetThatTheLatestDoesNotHaveIsWaitedFor) {
  SnapshotHub hub;
  hub.publish({snapshot(1)});
  auto reader = std::async(std::launch::async, [&] { return hub.fresh_of(2, 0ms, 1min); });
  auto other = std::async(std::launch::async, [&] { return hub.fresh_of(3, 0ms, 1min); });
  for (const auto* waiting : {&reader, &other}) {
    while (waiting->wait_for(0s) != std::future_status::ready) {
      if (hub.wanted()) hub.publish({snapshot(1), snapshot(2, 7)});
      std::this_thread::yield();
    }
  }
  const auto result = reader.get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)->time_ns, 7u);
  EXPECT_EQ(other.get().status(),
            absl::NotFoundError("pid 3 is not a target; `memprofctl targets` lists them"));
}

TEST(SnapshotHubTest, WhetherThereIsATargetIsNotSaidWithoutAPublication) {
  SnapshotHub hub;
  EXPECT_EQ(hub.fresh_of(2, 0ms, 1ms).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(SnapshotHubTest, OnePublicationAnswersAllThatAsked) {
  SnapshotHub hub;
  constexpr int kReaders = 8;
  std::vector<std::future<std::vector<ProfileSnapshotPtr>>> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.push_back(std::async(std::launch::async, [&] { return hub.fresh(1min); }));
  }
  std::uint64_t time = 0;
  for (auto& reader : readers) {
    while (reader.wait_for(0s) != std::future_status::ready) {
      if (hub.wanted()) hub.publish({snapshot(1, ++time)});
      std::this_thread::yield();
    }
    EXPECT_GE(reader.get()[0]->time_ns, 1u);
  }
  EXPECT_LE(time, static_cast<std::uint64_t>(kReaders));
  EXPECT_FALSE(hub.wanted());
}

// Answers readers as the ingest thread does, and notes when histories get a limit.
class Marker {
 public:
  explicit Marker(SnapshotHub& hub) : hub_(hub), thread_([this] { run(); }) {}
  ~Marker() { end(); }

  // No reader may wait any more.
  std::vector<std::chrono::steady_clock::time_point> end() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
    return marks_;
  }

 private:
  void run() {
    while (!ended_) {
      if (hub_.wanted()) {
        if (hub_.take_mark()) marks_.push_back(std::chrono::steady_clock::now());
        hub_.publish({});
      }
      std::this_thread::yield();
    }
  }

  SnapshotHub& hub_;
  std::atomic<bool> ended_{false};
  std::vector<std::chrono::steady_clock::time_point> marks_;
  std::thread thread_;
};

TEST(SnapshotHubTest, EachMomentThatIsAskedForIsMarkedAtADistance) {
  SnapshotHub hub;
  Marker marker(hub);
  for (int i = 0; i < 3; ++i) hub.mark_moment(1min);
  const auto marks = marker.end();
  ASSERT_EQ(marks.size(), 3u);
  for (std::size_t i = 1; i < marks.size(); ++i)
    EXPECT_GE(marks[i] - marks[i - 1], SnapshotHub::kMinWindow);
}

TEST(SnapshotHubTest, ReadersThatWaitForAMomentShareIt) {
  constexpr int kReaders = 8;
  SnapshotHub hub;
  std::latch come(kReaders);
  std::vector<std::future<void>> readers;
  readers.reserve(kReaders);
  for (int i = 0; i < kReaders; ++i) {
    readers.push_back(std::async(std::launch::async, [&] {
      come.count_down();
      hub.mark_moment(1min);
    }));
  }
  come.wait();
  Marker marker(hub);
  for (auto& reader : readers) reader.get();
  const auto marks = marker.end();
  EXPECT_GE(marks.size(), 1u);
  EXPECT_LT(marks.size(), static_cast<std::size_t>(kReaders));
}

}  // namespace
}  // namespace memprofd
