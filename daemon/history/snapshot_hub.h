// SPDX-License-Identifier: Apache-2.0
// Where readers and the ingest thread meet: readers ask, the ingest thread
// publishes. A reader is answered by a publication that began after it asked.
//
//   reader          fresh() asks: ticket 7 ............ waits ......... answered
//   ingest thread        ... wanted(): sees 7, gathers snapshots, publish() ^
//
// A reader with ticket 8 that asks while snapshots are gathered waits for the
// next publication.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "daemon/history/snapshot.h"

namespace memprofd {

class SnapshotHub {
 public:
  // Any thread. The latest publication, ordered by pid; a fresh one unless the
  // ingest thread did not publish in time.
  std::vector<TargetSnapshotPtr> fresh(std::chrono::milliseconds timeout);
  // The same, but nothing when it did not.
  std::optional<std::vector<TargetSnapshotPtr>> fresh_in_time(std::chrono::milliseconds timeout);
  // The same; when it returns in time, histories have a limit where this was asked for.
  void mark_moment(std::chrono::milliseconds timeout);
  std::vector<TargetSnapshotPtr> latest() const;
  // What fresh() calls to end the ingest thread's sleep; set before any reader.
  void set_wake_up(std::function<void()> wake_up) { wake_up_ = std::move(wake_up); }

  // Ingest thread only. Whether a reader waits; what is gathered from here on
  // answers every reader that has asked by now.
  bool wanted();
  // Ingest thread only, after wanted(). Whether some of those readers want histories to have a
  // limit now.
  bool take_mark() { return mark_.exchange(false); }
  // Ingest thread only. Answers the readers that wanted() last saw.
  void publish(std::vector<TargetSnapshotPtr> snapshots);

 private:
  std::function<void()> wake_up_;
  std::atomic<std::uint64_t> asked_{0};  // tickets given out
  std::atomic<bool> mark_{false};        // set before the ticket of who wants it
  std::uint64_t seen_ = 0;               // ingest thread's: asked_ at the last wanted()

  mutable std::mutex mutex_;
  std::condition_variable published_;
  std::uint64_t answered_ = 0;                // guarded by mutex_
  std::vector<TargetSnapshotPtr> snapshots_;  // guarded by mutex_
};

}  // namespace memprofd
