// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/recorder.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/history/snapshot.h"
#include "daemon/query/observe_mode_rules.h"
#include "daemon/util/estimate.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kEventsARead = 4096;
constexpr std::chrono::milliseconds kStep{100};
// Maximum number of events that finish() reads; most of any further ones happened after its call.
constexpr std::size_t kLastEvents = 1u << 18;

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

// True from "5.0" on, which introduced domains.
bool has_domains(const std::string& runtime_version) {
  return !runtime_version.empty() && runtime_version[0] >= '5' && runtime_version[0] <= '9';
}

ctf::TraceInfo trace_info(const TargetInfo& target, bool of_c) {
  const auto native_interval = static_cast<double>(target.c_heap_interval());
  return {.sampling_rate = of_c ? kBytesPerWord / native_interval : target.sampling_rate,
          .executable = target.exe,
          .host = host_name(),
          .ocamlrunparam = target.ocamlrunparam,
          .context = of_c ? kNativeHeapContext : "memprofd",
          .pid = static_cast<std::uint64_t>(target.pid)};
}

RecordingOptions recording_options(const RecorderOptions& options, const TargetInfo& target) {
  RecordingOptions result = options.recording;
  const int by_runtime =
      has_domains(target.runtime_version) ? ctf::kVersionDomains : ctf::kVersionOneDomain;
  result.version = options.version != 0 ? options.version : by_runtime;
  return result;
}

absl::Status check_recordable(const ProfileSnapshot& target, bool of_c) {
  const TargetInfo& info = target.info;
  if (of_c) RETURN_IF_ERROR(check_follows_c(target));
  const bool lives = info.state == TargetState::kSampling || info.state == TargetState::kWaiting;
  if (lives && target.events != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("pid ", info.pid, " is ", std::string(state_name(info.state)),
                   ": there is nothing to record; attach to it first"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceRecorder>> TraceRecorder::start(
    SnapshotSource& source, int pid, TraceOutput& output, const RecorderOptions& options) {
  const RequestedProcess meant(pid, options.start_time_ticks);
  ASSIGN_OR_RETURN(ProfileSnapshotPtr target, source.snapshot(pid));
  RETURN_IF_ERROR(check_is_meant(meant, target->info.program.start_time_ticks, std::nullopt));
  RETURN_IF_ERROR(check_recordable(*target, options.recording.of_c));
  ASSIGN_OR_RETURN(EventReader reader, EventReader::open(target->events));
  // The log begins to record at the next snapshot at the latest.
  ASSIGN_OR_RETURN(target, source.snapshot(pid));
  RETURN_IF_ERROR(check_is_meant(meant, target->info.program.start_time_ticks, std::nullopt));
  return std::unique_ptr<TraceRecorder>(
      new TraceRecorder(source, *target, std::move(reader), output, options));
}

TraceRecorder::TraceRecorder(SnapshotSource& source, const ProfileSnapshot& target,
                             EventReader reader, TraceOutput& output,
                             const RecorderOptions& options)
    : source_(source),
      pid_(target.info.pid),
      reader_(std::move(reader)),
      recording_(output, target.symbolizer, trace_info(target.info, options.recording.of_c),
                 recording_options(options, target.info)),
      options_(options) {}

bool TraceRecorder::step() {
  const EventRead read = reader_.read(kEventsARead, kStep);
  if (!recording_.put(read)) return false;
  if (read.ended) return end_with_target();
  const auto now = steady_clock::now();
  if (options_.max_seconds > 0 &&
      std::chrono::duration<double>(now - began_).count() >= options_.max_seconds) {
    finish(
        absl::StrCat("the time limit of ", format_duration(options_.max_seconds), " is reached"));
    return false;
  }
  if (flushed_ && now - *flushed_ < options_.flush_interval) return true;
  flushed_ = now;
  return recording_.flush();
}

void TraceRecorder::finish(const std::string& why) {
  // Fetches the events that still wait in the target.
  source_.snapshot(pid_).IgnoreError();
  for (std::size_t events = 0; events < kLastEvents;) {
    const EventRead read = reader_.read(kEventsARead, std::chrono::milliseconds(0));
    if (!recording_.put(read) || read.slices.empty()) break;
    for (const EventSlice& slice : read.slices) events += slice.events().size();
  }
  recording_.end(why, monotonic_ns());
}

bool TraceRecorder::end_with_target() {
  const absl::StatusOr<ProfileSnapshotPtr> target = source_.snapshot(pid_);
  const bool has_ended = target.ok() && (*target)->info.state != TargetState::kWaiting &&
                         (*target)->info.state != TargetState::kSampling;
  const bool known = has_ended && !(*target)->info.message.empty();
  const std::uint64_t ago_ns = has_ended ? (*target)->age(realtime_ns()).count() : 0;
  return recording_.end(absl::StrCat("pid ", pid_, ": ",
                                     known ? (*target)->info.message : "it is no longer profiled"),
                        monotonic_ns() - ago_ns);
}

}  // namespace memprofd
