// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/ingest_thread.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace memprofd {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<Lane> ended_lane(int pid) {
  auto snapshot = std::make_shared<TargetSnapshot>();
  snapshot->info.pid = pid;
  return std::make_shared<Lane>(std::move(snapshot));
}

// Other readers have it publish again and again, so that the task comes at any point of its turn.
TEST(IngestThread, WhoAsksAfterATargetWasAddedSeesIt) {
  for (int i = 0; i < 300; ++i) {
    SnapshotHub hub;
    IngestThread ingest(hub, 1 << 20);
    const std::jthread other([&hub](const std::stop_token& stop) {
      while (!stop.stop_requested()) hub.fresh(1min);
    });
    std::this_thread::yield();
    ingest.post([&ingest] { ingest.add(ended_lane(7)); });
    ASSERT_EQ(hub.fresh(1min).size(), 1u) << i;
  }
}

}  // namespace
}  // namespace memprofd
