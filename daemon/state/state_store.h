// SPDX-License-Identifier: Apache-2.0
// Stores all targets in a directory, one file each, so that a restarted memprofd continues with
// them:
//
//   DIR              mode 0700, locked: one memprofd at a time
//   DIR/PID.target   the output of TargetWriter
//
// A thread of its own reads the published snapshots every few seconds. Disk errors are counted, and
// profiling continues.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/history/snapshot_hub.h"
#include "daemon/state/target_reader.h"
#include "daemon/state/target_writer.h"
#include "daemon/util/fd.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

struct StateOptions {
  std::string directory;
  std::uint64_t max_bytes = std::uint64_t{1} << 30;  // total of all files; those being replaced
                                                     // count twice
};

class StateStore {
 public:
  // Creates the directory if necessary, and reads its files; removes unreadable ones. kUnavailable:
  // another memprofd uses it.
  static absl::StatusOr<std::unique_ptr<StateStore>> open(StateOptions options);
  ~StateStore() { stop(); }
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  // The targets that were stored; call once.
  std::vector<StoredTarget> take_stored() { return std::move(stored_); }
  // From now on stores the targets that hub shows; hub must outlive this or stop(). Stored targets
  // are kept until hub has shown them and no longer shows them.
  void start(SnapshotHub& hub);
  // Saves once more, then stops.
  void stop();

  // Any thread. Writes these snapshots, unless later ones were written; the oldest ended targets
  // are removed to make room. A disk that does not answer blocks one caller, and others for a
  // second.
  void write(const std::vector<ProfileSnapshotPtr>& snapshots);
  // Writes all existing targets and removes the files of others.
  void keep(const std::vector<ProfileSnapshotPtr>& snapshots);
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t write_errors() const { return write_errors_; }

 private:
  struct StoredState {
    TargetWriter writer;
    bool seen = false;
    bool gave_way = false;       // removed to make room; must not be written again
    std::uint64_t ended_ns = 0;  // 0: still running
  };

  StateStore(StateOptions options, UniqueFd lock)
      : options_(std::move(options)), lock_(std::move(lock)) {}

  void read_all();
  void read_one(int pid, const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void loop(SnapshotHub& hub);
  // Returns false for the last save.
  bool wait_for_next_save();
  void save(SnapshotHub& hub);
  void write_all(const std::vector<ProfileSnapshotPtr>& snapshots)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void write_one(const ProfileSnapshot& snapshot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void note(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void forget_missing(const std::vector<ProfileSnapshotPtr>& snapshots)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  bool evict_oldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  std::uint64_t all_bytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);

  const StateOptions options_;
  const UniqueFd lock_;
  std::vector<StoredTarget> stored_;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<std::uint64_t> write_errors_ = 0;
  TimedMutex write_mutex_;
  std::map<int, StoredState> kept_ ABSL_GUARDED_BY(write_mutex_);  // by pid
  bool failing_ ABSL_GUARDED_BY(write_mutex_) = false;             // the failure was logged
  Mutex mutex_;
  Condition stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace memprofd
