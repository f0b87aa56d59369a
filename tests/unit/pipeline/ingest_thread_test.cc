// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/ingest_thread.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <thread>

namespace memprofd {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<TargetPipeline> ended_lane(int pid) {
  auto snapshot = std::make_shared<ProfileSnapshot>();
  snapshot->info.pid = pid;
  return std::make_shared<TargetPipeline>(std::move(snapshot));
}

std::uint64_t publications(const IngestThread& ingest) {
  const DurationCounts durations = ingest.publications();
  return std::accumulate(durations.counts.begin(), durations.counts.end(), std::uint64_t{0});
}

// The target is added and a reader asks after the thread has taken the tasks of this turn.
TEST(IngestThread, ARequestAfterTheFirstTargetWasAddedSeesIt) {
  SnapshotHub hub;
  IngestThread ingest(hub, 1 << 20);
  ingest.post([&] {
    ingest.post([&ingest] { ingest.add(ended_lane(7)); });
    hub.fresh(0ms);
  });
  while (publications(ingest) == 0) std::this_thread::yield();
  ingest.post([] {}).wait();  // it is published
  EXPECT_EQ(hub.latest().size(), 1u);
}

}  // namespace
}  // namespace memprofd
