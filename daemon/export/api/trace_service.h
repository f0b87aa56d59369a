// SPDX-License-Identifier: Apache-2.0
// Records traces for the methods of memprof.v1.Trace: into files of the daemon,
// one thread each, or to a caller.
//
//   start ──▶ thread: recorder ──▶ files         stop() or a limit ends it;
//                │                               it stays in the list
//                └──▶ Listed: stats, files
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/export/api/method.h"
#include "daemon/history/snapshot_source.h"
#include "daemon/model/requested_process.h"
#include "daemon/trace/recorder.h"
#include "daemon/trace/trace_files.h"
#include "daemon/util/threads/mutex.h"
#include "daemon/util/user_slots.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

struct TraceServiceOptions {
  std::string directory;                       // directory of the files; empty: no files are
                                               // written
  std::uint64_t max_bytes = kUsualTraceBytes;  // limit for all traces in the directory
  std::size_t max_running = 16;                // streamed ones included
  std::size_t max_ended = 100;                 // ended traces that are still listed
};

class TraceStream;

// Thread-safe.
class TraceService {
 public:
  // source must outlive this.
  TraceService(SnapshotSource& source, TraceServiceOptions options);
  // Waits until all files are complete; no TraceStream may be left.
  ~TraceService();
  TraceService(const TraceService&) = delete;
  TraceService& operator=(const TraceService&) = delete;
  // Ends all traces soon.
  void stop();

  // user: the user who must own the program; nothing: any program is allowed.
  absl::StatusOr<::memprof::v1::TraceInfo> start(
      const ::memprof::v1::TraceOptions& options,
      const std::optional<ProcessUser>& user = std::nullopt);
  // Returns when the file is complete. user: likewise.
  absl::StatusOr<::memprof::v1::TraceInfo> stop(
      std::uint64_t id, const std::optional<ProcessUser>& user = std::nullopt);
  ::memprof::v1::ListTracesResponse list() const;
  // The program that it is of; 0: there is no such trace.
  int pid_of(std::uint64_t id) const;

  // Begins one that goes to the caller.
  absl::StatusOr<std::unique_ptr<TraceStream>> record(const ::memprof::v1::TraceOptions& options);
  // Ends a recording soon, after the events that are on their way from the target. Does not wait.
  // recording: a number that only its caller knows.
  absl::Status end_recording(std::uint64_t recording);

 private:
  friend class TraceStream;
  struct Work;
  // One that is written into files.
  struct Listed {
    ::memprof::v1::TraceInfo info;
    std::optional<ProcessUser> owner;  // of the program
    std::shared_ptr<Work> work;        // the thread's, but to be joined
    bool stop_asked = false;
    bool done = false;
  };

  // Takes a place for the current user.
  absl::StatusOr<UserSlots::Slot> take_slot();
  std::uint64_t new_id();
  absl::Status begin(Listed listed, UserSlots::Slot slot);
  void run(std::uint64_t id, Work& work, UserSlots::Slot slot);
  // Null: go on.
  const char* why_stop(std::uint64_t id) const;
  const char* why_stop_streamed(std::uint64_t recording) const;
  std::uint64_t note_recording();
  void forget_recording(std::uint64_t recording);
  void forget_ended() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  SnapshotSource& source_;
  const TraceServiceOptions options_;
  UserSlots running_;

  mutable Mutex mutex_;
  Condition ended_;
  std::map<std::uint64_t, Listed> traces_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  // Streamed ones, and when each is to end, if it is.
  std::map<std::uint64_t, std::optional<std::chrono::steady_clock::time_point>> recordings_
      ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

// A trace that is sent to its caller. Not thread-safe; the service must outlive it.
class TraceStream {
 public:
  TraceStream(const TraceStream&) = delete;
  TraceStream& operator=(const TraceStream&) = delete;
  ~TraceStream();  // ends the recording

  // Returns false if no more data is wanted.
  using Send = std::function<bool(const ::memprof::v1::RecordResponse&)>;
  // Sends new events, or waits a tenth of a second for some. Every message ends with a complete
  // packet. Returns false if the recording has ended, or the client wants no more.
  bool step(const Send& send);

 private:
  friend class TraceService;
  struct Impl;
  explicit TraceStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Sends a trace until it ends or the client leaves.
absl::Status record_trace(TraceService& traces, const ::memprof::v1::RecordRequest& request,
                          const StreamCall<::memprof::v1::RecordResponse>& call);

}  // namespace memprofd
