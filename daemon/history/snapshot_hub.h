// SPDX-License-Identifier: Apache-2.0
// Connects readers and the ingest thread: readers ask, the ingest thread publishes. A reader is
// answered by a publication that began after it asked.
//
//   reader          fresh() asks: request 7 ........... waits ......... answered
//   ingest thread        ... wanted(): sees 7, gathers snapshots, publish() ^
//
// A reader whose request 8 comes while snapshots are gathered waits for the next publication.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/history/snapshot_source.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

class SnapshotHub {
 public:
  // Any thread. The latest publication, ordered by pid; a fresh one unless the
  // ingest thread did not publish in time.
  std::vector<ProfileSnapshotPtr> fresh(std::chrono::milliseconds timeout);
  // The same, but nothing when it did not.
  std::optional<std::vector<ProfileSnapshotPtr>> fresh_in_time(std::chrono::milliseconds timeout);
  // The one of a target, of a fresh publication; where the ingest thread does not publish in that
  // time, of the latest. That has no target that was added since: for one that it does not have,
  // the fresh one is waited for, time_for_new at most. kNotFound: there is no such target;
  // kDeadlineExceeded: that is not known.
  absl::StatusOr<ProfileSnapshotPtr> fresh_of(int pid, std::chrono::milliseconds timeout,
                                              std::chrono::milliseconds time_for_new);
  // Waits until histories have a limit that is not before this call, for a range that begins at it;
  // without one if the ingest thread does not publish in time. Limits of requests are at least
  // kLeastWindow apart, so that requests cannot fill histories with windows; those that wait at the
  // same time share one.
  void mark_moment(std::chrono::milliseconds timeout);
  static constexpr std::chrono::milliseconds kLeastWindow{100};
  std::vector<ProfileSnapshotPtr> latest() const;
  // Wakes the ingest thread; called by fresh(). Set it before the first reader exists.
  void set_wake_up(std::function<void()> wake_up) { wake_up_ = std::move(wake_up); }

  // Ingest thread only. True if a reader waits; data gathered from here on answers every reader
  // that has asked by now.
  bool wanted();
  // Ingest thread only, after wanted(). Whether some of those readers want histories to have a
  // limit now.
  bool take_mark() { return mark_.exchange(false); }
  // Ingest thread only. Answers the readers that wanted() last saw.
  void publish(std::vector<ProfileSnapshotPtr> snapshots);

 private:
  using Clock = std::chrono::steady_clock;

  // Returns the number of the reader's request.
  std::uint64_t ask();
  bool wait_for(std::uint64_t request_number, Clock::time_point until)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null: there is none.
  ProfileSnapshotPtr find(int pid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::function<void()> wake_up_;
  std::atomic<std::uint64_t> asked_{0};  // requests so far
  std::atomic<bool> mark_{false};        // set before the request of the reader that wants it
  std::atomic<std::uint64_t> marks_wanted_{0};
  std::uint64_t seen_ = 0;  // ingest thread's: asked_ at the last wanted()

  Mutex marking_;                                           // taken before mutex_
  std::uint64_t marks_made_ ABSL_GUARDED_BY(marking_) = 0;  // of marks_wanted_
  Clock::time_point next_mark_ ABSL_GUARDED_BY(marking_);

  mutable Mutex mutex_;
  Condition published_;
  std::uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<ProfileSnapshotPtr> snapshots_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
