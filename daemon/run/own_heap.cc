// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/own_heap.h"

#include <array>
#include <csignal>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/run/own_copy.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kPace{5};  // between two readings of the ring
// Timeout for loading the agent and for the first sample; a busy machine needs seconds.
constexpr seconds kPatience{30};
// Timeout until a program that cannot be sampled waits in a system call.
constexpr seconds kUnsampledPatience{3};

// While it exists, Ctrl-Z does not stop this process, which would stop the thread that makes the
// copy with it.
class IgnoredStops {
 public:
  IgnoredStops() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], &ignore, &before_[i]);
    }
  }
  ~IgnoredStops() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], &before_[i], nullptr);
    }
  }
  IgnoredStops(const IgnoredStops&) = delete;
  IgnoredStops& operator=(const IgnoredStops&) = delete;

 private:
  static constexpr std::array kSignals = {SIGTSTP, SIGTTIN, SIGTTOU};
  std::array<struct sigaction, kSignals.size()> before_{};
};

absl::Status cancelled() { return absl::CancelledError("interrupted: no snapshot was taken"); }

}  // namespace

absl::StatusOr<std::unique_ptr<OwnHeap>> OwnHeap::open(int pid, const AgentFile& agent, double rate,
                                                       std::function<bool()> waits) {
  ASSIGN_OR_RETURN(std::unique_ptr<RunningProcess> process, RunningProcess::inspect(pid, agent));
  std::unique_ptr<OwnHeap> heap(new OwnHeap(std::move(process), rate, std::move(waits)));
  for (const auto until = Clock::now() + kPatience; heap->process_->agent() == nullptr;) {
    RETURN_IF_ERROR(heap->wait());
    if (Clock::now() < until) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("pid ", pid, " ", heap->process_->why_waiting()));
  }
  return heap;
}

OwnHeap::~OwnHeap() {
  if (run_ == nullptr || !run_->begun()) return;
  end_sampling(*run_, *process_);
}

// Goes as far as possible now.
absl::Status OwnHeap::update() {
  const MutexLock lock(mutex_);
  if (run_ == nullptr) {
    ASSIGN_OR_RETURN(std::optional<SharedAgent> agent, process_->advance());
    if (!agent) return absl::OkStatus();
    ASSIGN_OR_RETURN(
        run_, RunTarget::attach(programs_, process_->target().pid, *std::move(agent), rate_));
  }
  run_->update();
  if (!run_->problem().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("pid ", process_->target().pid, ": ", run_->problem()));
  }
  if (!run_->sampling()) {
    process_->ask_for_collection();
  } else if (sampled_since_ns_ == 0) {
    sampled_since_ns_ = monotonic_ns();
  }
  return absl::OkStatus();
}

absl::Status OwnHeap::wait() {
  RETURN_IF_ERROR(update());
  if (!waits_()) return cancelled();
  return process_->wait(kPace) ? ended() : absl::OkStatus();
}

absl::Status OwnHeap::ended() const {
  return absl::NotFoundError(absl::StrCat("pid ", process_->target().pid, " has ended"));
}

std::string OwnHeap::why_not_sampling() {
  const MutexLock lock(mutex_);
  return run_ == nullptr ? "" : run_->why_not_sampling();
}

absl::Status OwnHeap::sample(std::chrono::nanoseconds time) {
  const int pid = process_->target().pid;
  const auto late = Clock::now() + kPatience;
  const auto sampled_for = [this] {
    const MutexLock lock(mutex_);
    return std::chrono::nanoseconds(sampled_since_ns_ == 0 ? 0
                                                           : monotonic_ns() - sampled_since_ns_);
  };
  while (sampled_for() < time) {
    RETURN_IF_ERROR(wait());
    if (const std::string why = why_not_sampling(); !why.empty()) {
      return absl::FailedPreconditionError(absl::StrCat("pid ", pid, " ", why));
    }
    if (sampled_for() == std::chrono::nanoseconds(0) && Clock::now() > late) {
      return absl::FailedPreconditionError(absl::StrCat("pid ", pid, " ", process_->why_waiting()));
    }
  }
  const MutexLock lock(mutex_);
  run_->refresh();
  return absl::OkStatus();
}

SampleSites OwnHeap::sites_of(const std::vector<SampleId>& numbers) {
  const MutexLock lock(mutex_);
  if (run_ != nullptr && run_->begun()) {
    SampleSites sites = run_->sites_of(numbers);
    sites.sampled_since_ns = sampled_since_ns_;
    return sites;
  }
  SampleSites none;
  none.of.assign(numbers.size(), SampleSites::kUnknown);
  none.allocated_ns.assign(numbers.size(), 0);
  return none;
}

absl::StatusOr<HeapSummary> OwnHeap::take(const HeapRequest& request,
                                          const std::function<bool(std::string_view)>& take) {
  const Target& target = process_->target();
  const AgentLocation& agent = *process_->agent();
  ASSIGN_OR_RETURN(const std::shared_ptr<RunProgram> program,
                   programs_.find(absl::StrCat("/proc/", target.pid, "/exe")));
  ASSIGN_OR_RETURN(std::shared_ptr<Symbolizer> symbolizer, program->names_at(target.load_bias));
  const OwnCopy copy{
      .target = target,
      .agent_file = agent.file,
      .control_address = agent.control_address,
      .filters_allow = true,
      .symbolizer = symbolizer,
      .sampling_rate = rate_,
      .sites = [this](const std::vector<SampleId>& numbers) { return sites_of(numbers); }};
  absl::Status going_on;
  bool is_begun = false;
  const auto late = Clock::now() + kUnsampledPatience;
  const HeapClient client{.take =
                              [&](std::string_view bytes) {
                                is_begun = true;
                                return take(bytes);
                              },
                          .waits =
                              [&] {
                                going_on = update();
                                if (going_on.ok() && !waits_()) going_on = cancelled();
                                if (going_on.ok() && !is_begun && Clock::now() > late) {
                                  going_on = check_is_sampled();
                                }
                                return going_on.ok();
                              }};
  const IgnoredStops ignored;
  absl::StatusOr<HeapSummary> taken = take_own_copy(copy, request, client);
  RETURN_IF_ERROR(going_on);
  if (!taken.ok() && has_exited(target)) return ended();
  return taken;
}

// A program that cannot be sampled can be copied only while it waits.
absl::Status OwnHeap::check_is_sampled() {
  const std::string why = why_not_sampling();
  if (why.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("no snapshot of pid ", process_->target().pid, " was taken: the program ", why,
                   ", and was never found waiting; stop its tracker first"));
}

}  // namespace memprofd
