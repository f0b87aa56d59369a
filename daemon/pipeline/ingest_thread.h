// SPDX-License-Identifier: Apache-2.0
// The one thread that consumes ring buffers and owns what is made of them.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "daemon/history/snapshot_hub.h"
#include "daemon/pipeline/lane.h"
#include "daemon/util/fd.h"

namespace memprofd {

class IngestThread {
 public:
  // history_bytes: what the histories of all targets may take together.
  IngestThread(SnapshotHub& hub, std::size_t history_bytes);
  ~IngestThread();  // after the lanes' last look

  // Runs a task on the ingest thread and waits for its end, for kPatience at most: false when
  // that has passed. Tasks are run in their order, also late ones: each owns what it touches.
  // Any other thread.
  bool run(std::function<void()> task);
  static constexpr std::chrono::seconds kPatience{5};

  // Tasks' business: only inside run().
  void add(std::shared_ptr<Lane> lane);
  void remove(const Lane* lane);
  // The lane stays, with its final snapshot.
  void finish(Lane& lane);

  // Ring buffer records consumed, all targets. Any thread.
  std::uint64_t records() const { return records_; }
  // Taken by the histories of all targets. Any thread.
  std::size_t history_bytes() const { return history_bytes_; }

 private:
  void loop();
  void run_tasks();
  bool consume_all();
  void keep_history();
  void publish();
  void wait(bool busy);

  SnapshotHub& hub_;
  const std::size_t history_limit_bytes_;
  UniqueFd epoll_;
  UniqueFd wake_;  // eventfd
  std::vector<std::shared_ptr<Lane>> lanes_;
  std::atomic<std::uint64_t> records_{0};
  std::atomic<std::size_t> history_bytes_{0};
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;  // under mutex_
  bool stop_ = false;                         // under mutex_
  std::thread thread_;
};

}  // namespace memprofd
