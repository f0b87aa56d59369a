// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/heap_taker.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "daemon/attach/inject/heap_copy.h"
#include "daemon/attach/inject/heap_points.h"
#include "daemon/attach/inject/injector.h"
#include "daemon/attach/inject/trip_young_limit.h"
#include "daemon/attach/kernel/probe_removal.h"
#include "daemon/heapdump/copy_cost.h"
#include "daemon/heapdump/copy_room.h"
#include "daemon/heapdump/heap_writing.h"
#include "daemon/heapdump/piece_pipe.h"
#include "daemon/snapshot/heap_layout.h"
#include "daemon/snapshot/types/linked_units.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Time for a program to reach its safe point.
constexpr std::chrono::seconds kPatience{30};
// Time for which the copy waits for the reader of its pieces.
constexpr milliseconds kTakerPatience{5000};
constexpr milliseconds kPoll{20};
// Minimum time for the domains to stop together: an idle one takes this long to wake up.
constexpr std::chrono::nanoseconds kMinDomainPatience = milliseconds(1);
constexpr std::chrono::nanoseconds kMaxDomainPatience = milliseconds(3000);
// Copies without roots, after which the snapshot fails.
constexpr int kMaxFailures = 3;
// CPU time in kPatience above which a program works.
constexpr std::uint64_t kWorksNs = 1'000'000'000;
// Limits for the correction of predictions by earlier pauses of the program.
constexpr double kMinPauseRatio = 0.5, kMaxPauseRatio = 5;
// Interval at which an idle program is made to reach its safe point.
constexpr milliseconds kTripInterval{100};

absl::StatusOr<CopyAgent> agent_of(const CopyLease& lease) {
  ASSIGN_OR_RETURN(const auto agent, ElfFile::from_fd(lease.agent_file, "the agent"));
  return find_copy_agent(*agent, lease.control_address);
}

class HeapTaker {
 public:
  HeapTaker(const HeapSource& source, const HeapClient& client)
      : source_(source), lease_(*source.lease), target_(lease_.target), client_(client) {}

  absl::StatusOr<HeapSummary> run(const HeapRequest& request) {
    absl::StatusOr<HeapSummary> taken = take(request);
    // Any step fails in its own way if the program ends meanwhile.
    return taken.ok() || absl::IsCancelled(taken.status()) || !has_ended() ? taken : ended();
  }

 private:
  absl::StatusOr<HeapSummary> take(const HeapRequest& request) {
    contents_ = request.contents;
    RETURN_IF_ERROR(check_cost(request));
    RETURN_IF_ERROR(inspect_program());
    RETURN_IF_ERROR(HeapCopy::prepare(target_, agent_, patience_for(request), is_ours()));
    ProbeRemoval removal;
    Injection injection{
        .target = &target_, .removal = &removal, .libc = lease_.libc, .calls = kCopyCalls};
    injection.callback = [this](BorrowedThread& thread, std::uint64_t stopped_at_ns) {
      return make_and_write(thread, stopped_at_ns);
    };
    injection.filters_allow = lease_.filters_allow;
    waits_at_point_ = !is_ours() && HeapPoints(target_.memory, agent_.block).waiting().has_value();
    if (waits_at_point_) {
      injection.place =
          CatchSite{{.file = lease_.agent_file, .offset = agent_.point_offset}, agent_.point};
    }
    injection.while_waiting = !waits_at_point_ && agent_.waiting != 0;
    injection.without_probe = is_ours();
    if (is_ours() && agent_.sample_point != 0) {
      injection.sample_point.emplace(target_.memory, agent_.sample_point, agent_.hold);
    }
    ASSIGN_OR_RETURN(const auto injector, Injector::start(std::move(injection)));
    const absl::Status handed_on = hand_on(*injector);
    pipe_.close();
    injector->wait();
    RETURN_IF_ERROR(handed_on);
    RETURN_IF_ERROR(injector->result()->status());
    return summary_;
  }

  absl::Status check_cost(const HeapRequest& request) {
    ASSIGN_OR_RETURN(const CopySpeed speed, rehearse_copy(target_.pid));
    ASSIGN_OR_RETURN(CopyCost cost, predict_copy_cost(target_.pid, speed));
    cost.pause_seconds *= lease_.pause_ratio.load();
    summary_.predicted_pause_seconds = cost.pause_seconds;
    RETURN_IF_ERROR(check_pause(target_.pid, cost, request.max_pause_seconds));
    return check_room(target_.pid, cost);
  }

  // Time for the domains to stop together: the allowed pause without the time of the copy itself.
  std::chrono::nanoseconds patience_for(const HeapRequest& request) const {
    const double seconds = request.max_pause_seconds - summary_.predicted_pause_seconds;
    return std::clamp(
        std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)),
        kMinDomainPatience, kMaxDomainPatience);
  }

  absl::Status inspect_program() {
    ASSIGN_OR_RETURN(program_.file, ElfFile::from_fd(target_.program_file, target_.exe));
    ASSIGN_OR_RETURN(program_.layout,
                     find_heap_layout(*program_.file, target_.load_bias, target_.abi));
    program_.modules = ModuleTables::find(*program_.file, target_.load_bias);
    program_.interfaces = interfaces_of(*program_.file);
    ASSIGN_OR_RETURN(agent_, agent_of(lease_));
    return absl::OkStatus();
  }

  // True if the program is copied without a kernel side and its privileges.
  bool is_ours() const { return lease_.kernel == nullptr; }

  // Runs on the thread that traces the borrowed one.
  absl::Status make_and_write(BorrowedThread& thread, std::uint64_t stopped_at_ns) {
    began_ = true;
    absl::StatusOr<HeapCopy> copy = HeapCopy::take(target_, agent_, thread, stopped_at_ns);
    if (absl::IsUnavailable(copy.status())) {  // the copy is tried again
      if (thread.program() == nullptr && ++failures_ == kMaxFailures) {
        return absl::DeadlineExceededError(
            fmt::format("{} copies of pid {} failed, the last because {}; try again", failures_,
                        target_.pid, std::string(copy.status().message())));
      }
      began_ = false;
    }
    RETURN_IF_ERROR(copy.status());
    absl::Status written;
    thread.watch_while([&] { written = write(*copy); });
    // Pieces have been delivered, so the attempt must not be repeated.
    return absl::IsUnavailable(written) ? absl::AbortedError(written.message()) : written;
  }

  absl::Status write(const HeapCopy& copy) {
    summary_.pause_seconds = static_cast<double>(copy.pause_ns()) * 1e-9;
    lease_.paused_seconds += summary_.pause_seconds;
    learn_pause();
    HeapWriting writing(source_, program_, copy, contents_,
                        [this](std::string_view bytes) { return pipe_.push(std::string(bytes)); });
    RETURN_IF_ERROR(writing.run());
    writing.describe(summary_);
    return absl::OkStatus();
  }

  // Work that the rehearsal lacks, such as stopping domains, recurs at the next copy. Half of an
  // error is corrected at once, because the other half may be chance.
  void learn_pause() const {
    const double error = summary_.pause_seconds / summary_.predicted_pause_seconds;
    lease_.pause_ratio =
        std::clamp(lease_.pause_ratio.load() * std::sqrt(error), kMinPauseRatio, kMaxPauseRatio);
  }

  // Delivers pieces until the injector has ended and all are taken.
  absl::Status hand_on(const Injector& injector) {
    const auto begin = Clock::now();
    auto trip_at = begin;
    for (;;) {
      RETURN_IF_ERROR(check_wanted());
      const bool ended = injector.result().has_value();
      if (const auto piece = pipe_.pop(ended ? milliseconds(0) : kPoll)) {
        if (!client_.take(*piece)) return unwanted();
        continue;
      }
      if (ended) return absl::OkStatus();
      if (began_) continue;
      if (Clock::now() - begin > kPatience) return late(injector);
      if (waits_at_point_ || is_ours() || Clock::now() < trip_at) continue;
      trip_young_limit(target_, *lease_.kernel);
      trip_at = Clock::now() + kTripInterval;
    }
  }

  absl::Status check_wanted() const {
    if (lease_.given_up) {  // or it has ended, which run() reports
      return absl::AbortedError(
          fmt::format("pid {} was detached while its snapshot was taken", target_.pid));
    }
    return client_.waits() ? absl::OkStatus() : unwanted();
  }

  bool has_ended() const {
    pollfd process{.fd = target_.pidfd.get(), .events = POLLIN, .revents = 0};
    return ::poll(&process, 1, 0) > 0;
  }
  absl::Status ended() const {
    return absl::AbortedError(
        fmt::format("pid {} ended while its snapshot was taken", target_.pid));
  }

  static absl::Status unwanted() {
    return absl::CancelledError("no one waits for the snapshot any longer");
  }

  absl::Status late(const Injector& injector) const {
    std::string why(obstacle_text(injector.obstacle()));
    const std::string waiting = injector.why_not_waiting();
    if (why.empty() && process_cpu_ns(target_.pid) - cpu_ns_ > kWorksNs) {
      why =
          "it runs code that allocates nothing, or the machine is too busy to stop a thread in "
          "time; try again";
    }
    if (why.empty() && waiting.empty()) {
      why =
          "it allocates nothing; try again when it works. What its C code holds is shown by "
          "memprofctl rss, and followed with --mode observe --c-heap";
    }
    if (why.empty()) {
      why = fmt::format(
          "it allocates nothing, and cannot be copied meanwhile: {}; send it one request", waiting);
    }
    return absl::DeadlineExceededError(
        fmt::format("no snapshot of pid {} was taken, because it reached no safe point in {} s: {}",
                    target_.pid, kPatience.count(), why));
  }

  const HeapSource& source_;
  const CopyLease& lease_;
  const Target& target_;
  const HeapClient& client_;
  HeapContents contents_ = HeapContents::kNone;
  HeapProgram program_;
  CopyAgent agent_;
  PiecePipe pipe_{kTakerPatience};
  bool waits_at_point_ = false;  // with the runtime lock, so no thread reaches the safe point
  std::atomic<bool> began_{false};
  int failures_ = 0;  // copies without roots; used like summary_
  const std::uint64_t cpu_ns_ = process_cpu_ns(target_.pid);  // CPU time of the program before
  HeapSummary summary_;  // used by the thread of the attempt until that has ended
};

}  // namespace

absl::StatusOr<HeapPoints> points_of(const CopyLease& lease) {
  ASSIGN_OR_RETURN(const CopyAgent agent, agent_of(lease));
  return HeapPoints(lease.target.memory, agent.block);
}

absl::StatusOr<HeapSummary> take_heap(const HeapSource& source, const HeapRequest& request,
                                      const HeapClient& client) {
  RETURN_IF_ERROR(check_capability(source.lease->target.abi, Capability::kSnapshots));
  return HeapTaker(source, client).run(request);
}

}  // namespace memprofd
