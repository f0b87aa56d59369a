// SPDX-License-Identifier: Apache-2.0
// Connects readers and the ingest thread: readers request snapshots, the ingest thread publishes
// them. A reader receives a publication that began after its request.
//
//   reader          fresh(): request 7 ................ waits ......... returns
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
  // The latest publication, ordered by pid: a fresh one unless the ingest thread did not publish in
  // time. Any thread.
  std::vector<ProfileSnapshotPtr> fresh(std::chrono::milliseconds timeout);
  // Like fresh(), but returns nullopt if the ingest thread did not publish in time.
  std::optional<std::vector<ProfileSnapshotPtr>> fresh_in_time(std::chrono::milliseconds timeout);
  // The snapshot of a target from a fresh publication or, if the ingest thread does not publish in
  // time, from the latest. The latest does not contain targets that were added since. For an
  // unknown pid, waits at most time_for_new for the fresh one. kNotFound: there is no such target;
  // kDeadlineExceeded: unknown.
  absl::StatusOr<ProfileSnapshotPtr> fresh_of(int pid, std::chrono::milliseconds timeout,
                                              std::chrono::milliseconds time_for_new);
  // Waits until histories have a window boundary that is not before this call, for a range that
  // begins there. Returns without one if the ingest thread does not publish in time. Boundaries on
  // request are at least kMinWindow apart, so that requests cannot fill histories with windows;
  // concurrent requests share one.
  void mark_moment(std::chrono::milliseconds timeout);
  static constexpr std::chrono::milliseconds kMinWindow{100};
  std::vector<ProfileSnapshotPtr> latest() const;
  // Called by fresh() to wake the ingest thread. Set it before the first reader exists.
  void set_wake_up(std::function<void()> wake_up) { wake_up_ = std::move(wake_up); }

  // Ingest thread only. True if a reader waits; data gathered from here on serves every reader that
  // has made its request by now.
  bool wanted();
  // Ingest thread only, after wanted(). True if some of those readers want a window boundary in the
  // histories now.
  bool take_mark() { return mark_.exchange(false); }
  // Ingest thread only. Serves the readers that wanted() last saw.
  void publish(std::vector<ProfileSnapshotPtr> snapshots);

 private:
  using Clock = std::chrono::steady_clock;

  // Returns the number of the new request.
  std::uint64_t ask();
  bool wait_for(std::uint64_t request_number, Clock::time_point until)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns null if there is no such target.
  ProfileSnapshotPtr find(int pid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::function<void()> wake_up_;
  std::atomic<std::uint64_t> asked_{0};  // number of requests so far
  std::atomic<bool> mark_{false};        // set before the request of the reader that wants it
  std::atomic<std::uint64_t> marks_wanted_{0};
  std::uint64_t seen_ = 0;  // ingest thread only: asked_ at the last wanted()

  Mutex marking_;                                           // taken before mutex_
  std::uint64_t marks_made_ ABSL_GUARDED_BY(marking_) = 0;  // of marks_wanted_
  Clock::time_point next_mark_ ABSL_GUARDED_BY(marking_);

  mutable Mutex mutex_;
  Condition published_;
  std::uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<ProfileSnapshotPtr> snapshots_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
