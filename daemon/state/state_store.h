// SPDX-License-Identifier: Apache-2.0
// Keeps all targets in a directory, a file each, so that a memprofd that is started again goes on
// with them:
//
//   DIR              mode 0700, locked: one memprofd at a time
//   DIR/PID.target   what TargetWriter writes
//
// A thread of its own reads the snapshots that everybody reads, every few seconds. Whatever goes
// wrong with the disk is counted, and profiling goes on.
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
  std::uint64_t max_bytes = std::uint64_t{1} << 30;  // of all files; those being replaced twice
};

class StateStore {
 public:
  // Creates the directory if necessary, and reads its files; unreadable ones are removed.
  // kUnavailable: another memprofd has it.
  static absl::StatusOr<std::unique_ptr<StateStore>> open(StateOptions options);
  ~StateStore() { stop(); }
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  // The targets that were stored; call once.
  std::vector<StoredTarget> take_stored() { return std::move(stored_); }
  // From now on targets are kept as hub, which must outlive this or stop(), shows them. Those that
  // were there are kept until it has shown them and shows them no more.
  void start(SnapshotHub& hub);
  // After a last look.
  void stop();

  // Any thread. Writes these snapshots, unless later ones were written; the oldest ended targets
  // are removed to make room. A disk that does not answer blocks one caller, and others for a
  // second.
  void write(const std::vector<ProfileSnapshotPtr>& snapshots);
  // The same of all targets that there are: the files of others go.
  void keep(const std::vector<ProfileSnapshotPtr>& snapshots);
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t write_errors() const { return write_errors_; }

 private:
  struct StoredState {
    TargetWriter writer;
    bool seen = false;
    bool gave_way = false;       // not to be written again
    std::uint64_t ended_ns = 0;  // 0: it has not
  };

  StateStore(StateOptions options, UniqueFd lock)
      : options_(std::move(options)), lock_(std::move(lock)) {}

  void read_all();
  void read_one(int pid, const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void loop(SnapshotHub& hub);
  // False: it is the last one.
  bool wait_for_next_save();
  void save(SnapshotHub& hub);
  void write_all(const std::vector<ProfileSnapshotPtr>& snapshots)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void write_one(const ProfileSnapshot& snapshot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void note(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void forget_missing(const std::vector<ProfileSnapshotPtr>& snapshots)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  bool give_way() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  std::uint64_t all_bytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);

  const StateOptions options_;
  const UniqueFd lock_;
  std::vector<StoredTarget> stored_;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<std::uint64_t> write_errors_ = 0;
  TimedMutex write_mutex_;
  std::map<int, StoredState> kept_ ABSL_GUARDED_BY(write_mutex_);  // by pid
  bool failing_ ABSL_GUARDED_BY(write_mutex_) = false;             // that was logged
  Mutex mutex_;
  Condition stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace memprofd
