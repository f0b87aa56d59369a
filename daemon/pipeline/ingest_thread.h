// SPDX-License-Identifier: Apache-2.0
// The only thread that consumes ring buffers. It owns everything made from them.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/history/snapshot_hub.h"
#include "daemon/model/duration_counts.h"
#include "daemon/pipeline/target_pipeline.h"
#include "daemon/util/fd.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

class IngestThread {
 public:
  // history_bytes: total memory for the histories of all targets.
  IngestThread(SnapshotHub& hub, std::size_t history_bytes);
  ~IngestThread();  // ends after the pipelines have processed the remaining data

  // Runs a task on the ingest thread, after at most one turn of one ring. The future becomes ready
  // when it has run. Tasks run in order, including all that were posted before the end. Each must
  // own what it uses. Any thread.
  std::future<void> post(std::function<void()> task);

  // Only tasks may call these.
  void add(std::shared_ptr<TargetPipeline> target_pipeline);
  void remove(const TargetPipeline* target_pipeline);
  // The pipeline remains, with its final snapshot.
  void finish(TargetPipeline& target_pipeline);

  // Ring buffer records consumed, all targets. Any thread.
  std::uint64_t records() const { return records_; }
  // Durations of publications. Any thread.
  DurationCounts publications() const;
  // Memory of the histories of all targets. Any thread.
  std::size_t history_bytes() const { return history_bytes_; }

 private:
  void loop();
  void run_tasks();
  // Time until something is due, unless the kernel or a task wakes the thread earlier.
  int wait_ms(bool busy) const;
  bool consume_all();
  void keep_history();
  void publish();
  // Iterates over a copy of the list, because tasks that run meanwhile add and remove pipelines.
  void for_each_target(const std::function<void(TargetPipeline&)>& use);
  void wait(bool busy);

  SnapshotHub& hub_;
  const std::size_t history_limit_bytes_;
  UniqueFd epoll_;
  UniqueFd wake_;  // eventfd
  std::vector<std::shared_ptr<TargetPipeline>> target_pipelines_;
  std::atomic<std::uint64_t> records_{0};
  std::atomic<std::size_t> history_bytes_{0};
  mutable Mutex mutex_;
  DurationCounts publications_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::packaged_task<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace memprofd
