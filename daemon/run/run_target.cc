// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/run_target.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/discover/frame_table.h"
#include "daemon/discover/relocated_file.h"
#include "daemon/symbolize/ocaml_symbolizer.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::uint32_t kGeneration = 1;  // the one session of a run
// Windows of the history: short ones first, so that the peak of a short run is found.
constexpr std::uint64_t kShortestWindowNs = 5'000'000, kLongestWindowNs = 1'000'000'000;
constexpr std::uint64_t kWindowsSoFar = 100;  // a window lasts 1/100 of the run so far
constexpr std::uint64_t kRenewNs = AgentControl::kLeaseNs / 3;

std::string name_of_capture(memprof_capture_by capture) {
  return capture == MEMPROF_CAPTURE_BY_AGENT ? "agent" : "runtime";
}

}  // namespace

RunTarget::RunTarget(SharedAgent agent, std::string comm, double rate)
    : agent_(std::move(agent)),
      comm_(std::move(comm)),
      rate_(rate),
      began_ns_(realtime_ns()),
      history_(began_ns_) {}

absl::StatusOr<std::unique_ptr<RunTarget>> RunTarget::create(const std::string& program,
                                                             std::string comm,
                                                             const ShareOptions& options) {
  ASSIGN_OR_RETURN(SharedAgent agent, SharedAgent::create(options));
  std::unique_ptr<RunTarget> target(new RunTarget(std::move(agent), std::move(comm), options.rate));
  // A program of another kind may start one of OCaml; what that is shows when it has.
  std::error_code error;
  const std::string path =
      std::filesystem::canonical(program, error).string();  // as the agent says
  if (absl::StatusOr<Program> found = inspect_program(path); found.ok()) {
    target->agent_.set_offsets(runtime_offsets(found->ocaml.abi));
    target->program_ = *std::move(found);
    target->expected_path_ = path;
  }
  return target;
}

absl::StatusOr<RunTarget::Program> RunTarget::inspect_program(const std::string& path) {
  Program program;
  ASSIGN_OR_RETURN(program.file, ElfFile::open(path, path, ByteBudget::for_target()));
  ASSIGN_OR_RETURN(program.ocaml, check_program(*program.file));
  if (!program.ocaml.why_no_agent.empty()) {
    return absl::FailedPreconditionError(program.ocaml.why_no_agent);
  }
  return program;
}

absl::StatusOr<std::shared_ptr<Symbolizer>> RunTarget::symbolizer(const ShareTaker& taker,
                                                                  Program program) {
  const auto callback = program.file->find_symbol("caml_callback_exn");
  if (!callback) return absl::FailedPreconditionError("has no symbol caml_callback_exn");
  const std::uint64_t bias = taker.callback_exn - callback->address;
  ASSIGN_OR_RETURN(const RelocatedFile memory, RelocatedFile::open(*program.file, bias));
  ASSIGN_OR_RETURN(
      FrameTable frames,
      read_frame_table(memory, memory.mappings(), program.ocaml.symbols.frametable.address + bias));
  return std::make_shared<OcamlSymbolizer>(
      std::move(program.file), bias, std::move(frames),
      program.ocaml.abi.end_lines ? LocationFormat::kLines : LocationFormat::kLine,
      ByteBudget::for_target());
}

absl::Status RunTarget::begin_pipeline(const ShareTaker& taker) {
  exe_ = taker.exe.empty() ? expected_path_ : taker.exe;
  if (!program_ || exe_ != expected_path_) {
    ASSIGN_OR_RETURN(program_, inspect_program(exe_));
    agent_.set_offsets(runtime_offsets(program_->ocaml.abi));
  }
  const RuntimeAbi& abi = program_->ocaml.abi;
  version_ = abi.version;
  const bool domains = abi.domains;
  ASSIGN_OR_RETURN(symbolizer_, symbolizer(taker, *std::exchange(program_, std::nullopt)));
  PipelineLimits limits;
  if (domains) limits.sample_id_step = MEMPROF_BUFFERS;
  pipeline_ = std::make_unique<Pipeline>(limits);
  pipeline_->expect({});
  pipeline_->begin_session(kGeneration, rate_);
  if (domains) pipeline_->follow_since(kGeneration);
  tap_ = std::make_unique<EventTap>(*pipeline_, std::make_shared<EventLog>());
  return absl::OkStatus();
}

void RunTarget::begin(const ShareTaker& taker) {
  pid_ = taker.pid;
  if (const absl::Status status = begin_pipeline(taker); !status.ok()) {
    problem_ = std::string(status.message());
    return;
  }
  publish(TargetState::kSampling, "");
}

bool RunTarget::window_is_due() const {
  const std::uint64_t now = realtime_ns();
  const std::uint64_t length = std::clamp((now - std::min(now, began_ns_)) / kWindowsSoFar,
                                          kShortestWindowNs, kLongestWindowNs);
  return now >= history_.last_close_ns() + length;
}

void RunTarget::close_window() {
  agent_.catch_up(*pipeline_);
  const std::uint64_t now = std::max(realtime_ns(), history_.last_close_ns() + 1);
  const TargetCounters& totals = pipeline_->aggregator().totals();
  history_.close_window(now, [this](const auto& use) { pipeline_->close_interval(use); },
                        {.live = totals.live, .dropped_events = pipeline_->drops().lost()});
  history_.note_live(now, totals.live, totals.gone_words(), pipeline_->aggregator().by_class());
}

void RunTarget::update() {
  const std::uint64_t now = monotonic_ns();
  if (now - renewed_ns_ >= kRenewNs) {
    renewed_ns_ = now;
    agent_.renew();
  }
  if (!begun()) {
    // Events in the ring wait for the next call, so that a recording can start in between.
    const std::optional<ShareTaker> taker = agent_.taker();
    if (taker && pid_ == 0) begin(*taker);
    return;
  }
  tap_->update();
  agent_.drain(*pipeline_);
  if (window_is_due()) close_window();
  tap_->flush();
}

void RunTarget::finish(const ProgramEnd& end) {
  end_ = end;
  if (!begun()) return;
  tap_->update();
  agent_.catch_up(*pipeline_);
  pipeline_->end();
  close_window();
  tap_->close();
  publish(TargetState::kExited, end_text(end));
}

void RunTarget::publish(TargetState state, const std::string& message) {
  auto snapshot = std::make_shared<ProfileSnapshot>();
  const absl::StatusOr<AgentStatus> status = agent_.status();
  snapshot->info = {.pid = pid_,
                    .comm = comm_,
                    .exe = exe_,
                    .runtime_version = version_,
                    .mode = TargetMode::kAgent,
                    .capture = name_of_capture(status.ok() ? status->running_capture
                                                           : MEMPROF_CAPTURE_BY_RUNTIME),
                    .state = state,
                    .message = message,
                    .end = end_,
                    .sampling_rate = rate_};
  snapshot->time_ns = realtime_ns();
  snapshot->attached_ns = began_ns_;
  snapshot->symbolizer = symbolizer_;
  snapshot->events = tap_->log();
  pipeline_->fill(*snapshot);
  snapshot->history = history_.view();
  const MutexLock lock(mutex_);
  published_ = std::move(snapshot);
}

absl::StatusOr<ProfileSnapshotPtr> RunTarget::snapshot(int) {
  const MutexLock lock(mutex_);
  if (published_ == nullptr) return absl::NotFoundError("the program has not started");
  return published_;
}

std::vector<ProfileSnapshotPtr> RunTarget::snapshots() {
  const MutexLock lock(mutex_);
  if (published_ == nullptr) return {};
  return {published_};
}

}  // namespace memprofd
