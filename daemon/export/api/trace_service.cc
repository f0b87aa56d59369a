// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/trace_service.h"

#include <algorithm>
#include <ctime>
#include <deque>
#include <filesystem>
#include <functional>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/trace_options.h"
#include "daemon/history/snapshot.h"
#include "daemon/query/observe_mode_rules.h"
#include "daemon/util/clock.h"
#include "daemon/util/guard.h"
#include "daemon/util/scoped_user.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/threads/start_thread.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

constexpr char kDaemonStops[] = "memprofd stops";
constexpr char kStopAsked[] = "stopped by request";
// Maximum size of a message; by default clients accept 4 MiB.
constexpr std::size_t kMessageBytes = 1 << 20;
// A live stream is flushed more often than a file.
constexpr std::chrono::milliseconds kStreamFlush{250};
// Time that an event takes from the target to the log from which traces are recorded.
constexpr std::chrono::milliseconds kOnTheWay{300};

absl::StatusOr<std::string> file_directory(const std::string& directory) {
  if (directory.empty()) {
    return absl::InvalidArgumentError(
        "this memprofd writes no traces: start it with --trace.directory, or let memprofctl "
        "record write the file");
  }
  RETURN_IF_ERROR(make_trace_directory(directory));
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(directory, error);
  return error ? directory : path.lexically_normal().string();
}

// Letters, digits, '.', '_' and '-'; does not begin with a dot.
std::string file_name_part(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || (c == '.' && !result.empty());
    result += plain ? c : '_';
  }
  return result.empty() ? "target" : result;
}

// "server.exe-4242-20251231T235959-7": program, pid, UTC, number of the trace.
std::string file_stem(const TargetInfo& target, std::uint64_t id) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char time[32] = "";
  std::strftime(time, sizeof time, "%Y%m%dT%H%M%S", &utc);
  return absl::StrCat(file_name_part(target.comm), "-", target.pid, "-", time, "-", id);
}

// Sends packets in messages. Every message ends with a complete packet.
class MessageOutput : public TraceOutput {
 public:
  absl::Status begin_file() override { return absl::OkStatus(); }
  absl::Status write(std::span<const std::byte> packet) override {
    if (pieces_.empty() || pieces_.back().size() + packet.size() > kMessageBytes) {
      pieces_.emplace_back();
    }
    pieces_.back().append(reinterpret_cast<const char*>(packet.data()), packet.size());
    return absl::OkStatus();
  }
  std::deque<std::string> take() { return std::exchange(pieces_, {}); }

 private:
  std::deque<std::string> pieces_;
};

// why_stop: null: continue.
void advance(TraceRecorder& recorder, const char* why_stop) {
  if (why_stop != nullptr) {
    recorder.finish(why_stop);
  } else {
    recorder.step();
  }
}

bool send_all(MessageOutput& output, const TraceRecorder& recorder, std::uint64_t recording,
              const TraceStream::Send& send) {
  pb::RecordResponse message;
  message.set_recording(recording);
  *message.mutable_stats() = to_proto(recorder.stats());
  for (std::string& piece : output.take()) {
    message.set_data(std::move(piece));
    if (!send(message)) return false;
  }
  if (recorder.ended().empty()) return true;
  message.clear_data();
  message.set_ended(valid_utf8(recorder.ended()));
  return send(message);
}

void describe(const TraceRecorder& recorder, const TraceFiles& files, pb::TraceInfo& info) {
  *info.mutable_stats() = to_proto(recorder.stats());
  info.clear_files();
  for (const std::string& path : files.paths()) info.add_files(valid_utf8(path));
  info.set_ended(valid_utf8(recorder.ended()));
}

}  // namespace

struct TraceService::Work {
  Work(std::string directory, std::string stem, std::size_t max_files, std::uint64_t max_bytes)
      : files(std::move(directory), std::move(stem), max_files, max_bytes) {}

  TraceFiles files;
  std::unique_ptr<TraceRecorder> recorder;  // null: has ended
  std::thread thread;
};

struct TraceStream::Impl {
  Impl(TraceService& service, UserSlots::Slot slot)
      : service(service), slot(std::move(slot)), number(service.note_recording()) {}
  ~Impl() { service.forget_recording(number); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  TraceService& service;
  UserSlots::Slot slot;
  const std::uint64_t number;  // of the recording
  MessageOutput output;
  std::unique_ptr<TraceRecorder> recorder;
};

TraceService::TraceService(SnapshotSource& source, TraceServiceOptions options)
    : source_(source),
      options_(std::move(options)),
      running_(options_.max_running, "traces are being recorded") {}

TraceService::~TraceService() {
  stop();
  for (auto& [id, trace] : traces_) {
    if (trace.work->thread.joinable()) trace.work->thread.join();
  }
}

void TraceService::stop() {
  const MutexLock lock(mutex_);
  stopping_ = true;
}

const char* TraceService::why_stop(std::uint64_t id) const {
  const MutexLock lock(mutex_);
  if (traces_.at(id).stop_asked) return kStopAsked;
  return stopping_ ? kDaemonStops : nullptr;
}

const char* TraceService::why_stop_streamed(std::uint64_t recording) const {
  const MutexLock lock(mutex_);
  const auto found = recordings_.find(recording);
  const bool is_over = found != recordings_.end() && found->second &&
                       std::chrono::steady_clock::now() >= *found->second;
  if (is_over) return kStopAsked;
  return stopping_ ? kDaemonStops : nullptr;
}

std::uint64_t TraceService::note_recording() {
  std::random_device random;
  const MutexLock lock(mutex_);
  for (;;) {
    const std::uint64_t number = std::uint64_t{random()} << 32 | random();
    if (number != 0 && recordings_.try_emplace(number).second) return number;
  }
}

void TraceService::forget_recording(std::uint64_t recording) {
  const MutexLock lock(mutex_);
  recordings_.erase(recording);
}

absl::Status TraceService::end_recording(std::uint64_t recording) {
  const MutexLock lock(mutex_);
  const auto found = recordings_.find(recording);
  if (found == recordings_.end()) return absl::NotFoundError("there is no such recording");
  if (!found->second) found->second = std::chrono::steady_clock::now() + kOnTheWay;
  return absl::OkStatus();
}

absl::StatusOr<pb::TraceInfo> TraceService::start(const pb::TraceOptions& options,
                                                  const std::optional<ProcessUser>& user) {
  ASSIGN_OR_RETURN(RecorderOptions recorder_options, memprofd::recorder_options(options));
  ASSIGN_OR_RETURN(std::string directory, file_directory(options_.directory));
  RETURN_IF_ERROR(check_trace_room(directory, options_.max_bytes));
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr target, source_.snapshot(options.pid()));
  recorder_options.start_time_ticks = target->info.program.start_time_ticks;
  RETURN_IF_ERROR(check_is_meant({options.pid(), options.process_start_ticks(), user},
                                 recorder_options.start_time_ticks, target->info.owner));
  RETURN_IF_ERROR(check_follows_blocks(*target, "events of single blocks"));
  ASSIGN_OR_RETURN(UserSlots::Slot slot, take_slot());
  const std::uint64_t id = new_id();
  auto work = std::make_shared<Work>(std::move(directory), file_stem(target->info, id),
                                     options.max_files(), options_.max_bytes);
  ASSIGN_OR_RETURN(work->recorder,
                   TraceRecorder::start(source_, options.pid(), work->files, recorder_options));
  pb::TraceInfo info;
  info.set_id(id);
  *info.mutable_options() = options;
  info.set_started_unix_ns(static_cast<std::int64_t>(realtime_ns()));
  // The first step creates the file, or returns an error.
  if (!work->recorder->step() && work->files.paths().empty()) {
    return absl::FailedPreconditionError(work->recorder->ended());
  }
  describe(*work->recorder, work->files, info);
  RETURN_IF_ERROR(
      begin({.info = info, .owner = target->info.owner, .work = std::move(work)}, std::move(slot)));
  return info;
}

std::uint64_t TraceService::new_id() {
  const MutexLock lock(mutex_);
  return ++last_id_;
}

absl::StatusOr<UserSlots::Slot> TraceService::take_slot() {
  {
    const MutexLock lock(mutex_);
    if (stopping_) return absl::UnavailableError(kDaemonStops);
  }
  return running_.take(ScopedUser::current());
}

absl::Status TraceService::begin(Listed listed, UserSlots::Slot slot) {
  const std::uint64_t id = listed.info.id();
  const std::shared_ptr<Work> work = listed.work;
  MutexLock lock(mutex_);
  forget_ended();
  traces_[id] = std::move(listed);  // where the trace's thread finds it
  auto thread = start_thread("to record a trace",
                             [this, id, &work = *work, slot = std::move(slot)]() mutable {
                               run(id, work, std::move(slot));
                             });
  if (thread.ok()) {
    work->thread = *std::move(thread);
    return absl::OkStatus();
  }
  traces_.erase(id);
  lock.unlock();
  work->files.remove();
  return thread.status();
}

void TraceService::run(std::uint64_t id, Work& work, UserSlots::Slot slot) {
  const bool is_whole = guarded("to record a trace", [&] {
    while (work.recorder->ended().empty()) {
      advance(*work.recorder, why_stop(id));
      const MutexLock lock(mutex_);
      describe(*work.recorder, work.files, traces_.at(id).info);
    }
  });
  work.recorder.reset();
  { const UserSlots::Slot given_back = std::move(slot); }
  const MutexLock lock(mutex_);
  Listed& listed = traces_.at(id);
  if (!is_whole) listed.info.set_ended("memprofd failed to continue it; see its log");
  listed.info.set_ended_unix_ns(static_cast<std::int64_t>(realtime_ns()));
  listed.done = true;
  ended_.notify_all();
}

// A thread does not take the mutex once it is done.
void TraceService::forget_ended() {
  auto ended = static_cast<std::size_t>(
      std::ranges::count_if(traces_, [](const auto& entry) { return entry.second.done; }));
  for (auto it = traces_.begin(); it != traces_.end() && ended > options_.max_ended;) {
    if (!it->second.done) {
      ++it;
      continue;
    }
    it->second.work->thread.join();
    it = traces_.erase(it);
    --ended;
  }
}

absl::StatusOr<pb::TraceInfo> TraceService::stop(std::uint64_t id,
                                                 const std::optional<ProcessUser>& user) {
  const MutexLock lock(mutex_);
  const auto found = traces_.find(id);
  if (found == traces_.end()) {
    return absl::NotFoundError(
        absl::StrCat("there is no trace ", id, "; see `memprofctl trace list`"));
  }
  RETURN_IF_ERROR(
      check_is_meant({found->second.info.options().pid(), 0, user}, 0, found->second.owner));
  found->second.stop_asked = true;
  for (auto still = found; !still->second.done;) {
    ended_.wait(mutex_);
    still = traces_.find(id);
    // Another thread may have forgotten it meanwhile.
    if (still == traces_.end()) {
      return absl::NotFoundError(absl::StrCat("trace ", id, " has ended long ago"));
    }
  }
  return traces_.at(id).info;
}

pb::ListTracesResponse TraceService::list() const {
  const MutexLock lock(mutex_);
  pb::ListTracesResponse out;
  for (const auto& [id, trace] : traces_) *out.add_traces() = trace.info;
  return out;
}

int TraceService::pid_of(std::uint64_t id) const {
  const MutexLock lock(mutex_);
  const auto found = traces_.find(id);
  return found == traces_.end() ? 0 : found->second.info.options().pid();
}

absl::StatusOr<std::unique_ptr<TraceStream>> TraceService::record(const pb::TraceOptions& options) {
  ASSIGN_OR_RETURN(RecorderOptions recorder_options, memprofd::recorder_options(options));
  if (options.max_files() != 0) {
    return absl::InvalidArgumentError("a trace that is streamed is one file: max_files is 0");
  }
  recorder_options.start_time_ticks = options.process_start_ticks();
  recorder_options.flush_interval = kStreamFlush;
  ASSIGN_OR_RETURN(UserSlots::Slot slot, take_slot());
  auto impl = std::make_unique<TraceStream::Impl>(*this, std::move(slot));
  ASSIGN_OR_RETURN(impl->recorder,
                   TraceRecorder::start(source_, options.pid(), impl->output, recorder_options));
  return std::unique_ptr<TraceStream>(new TraceStream(std::move(impl)));
}

TraceStream::TraceStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TraceStream::~TraceStream() = default;

bool TraceStream::step(const Send& send) {
  TraceRecorder& recorder = *impl_->recorder;
  if (!recorder.ended().empty()) return false;
  advance(recorder, impl_->service.why_stop_streamed(impl_->number));
  return send_all(impl_->output, recorder, impl_->number, send) && recorder.ended().empty();
}

absl::Status record_trace(TraceService& traces, const pb::RecordRequest& request,
                          const StreamCall<pb::RecordResponse>& call) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TraceStream> stream, traces.record(request.options()));
  call.done("");
  while (call.waits() && stream->step(call.send)) {
  }
  return absl::OkStatus();
}

}  // namespace memprofd
