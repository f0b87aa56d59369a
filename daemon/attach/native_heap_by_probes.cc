// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/native_heap_by_probes.h"

#include <sys/utsname.h>

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bpf/malloc_probes.h"
#include "daemon/attach/kernel/uprobe_session.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/estimate.h"
#include "daemon/util/log.h"

namespace memprofd {
namespace {

constexpr auto kCountFor = std::chrono::seconds(1);

// A followed call returns through a system call, which seccomp filters cannot forbid since this
// release.
bool returns_pass_filters() {
  utsname machine{};
  int major = 0, minor = 0;
  if (::uname(&machine) != 0 || std::sscanf(machine.release, "%d.%d", &major, &minor) != 2)
    return false;
  return std::pair(major, minor) >= std::pair(6, 14);
}

// The reason why the kernel cannot do it, or must not; empty: it can.
std::string why_not_here(const Target& target) {
  const absl::Status known = check_capability(target.abi, Capability::kNativeHeap);
  if (!known.ok()) return std::string(known.message());
  if (!uprobe_sessions_work()) {
    return "this kernel has no uprobe sessions; boot Linux 6.13 or later, or allow the agent";
  }
  const auto process = ProcFs().status(target.pid);
  if (process.ok() && process->seccomp != 0 && !returns_pass_filters()) {
    return "it runs under a seccomp filter, which may kill it at a probed return; "
           "boot Linux 6.14 or later";
  }
  if (target.abi.domains && !target.state_offset) {
    return "cannot find the domain state of its threads; keep its symbol table (no strip)";
  }
  return "";
}

}  // namespace

NativeHeapByProbes::NativeHeapByProbes(const Target& target, const AttachOptions& options)
    : interval_(options.native_heap_interval), max_hits_(options.native_heap_max_hits) {
  if (interval_ == 0) return;
  domain_state_offset_ = target.state_offset.value_or(0);
  why_not_ = why_not_here(target);
  if (why_not_.empty()) find_places(target);
}

void NativeHeapByProbes::find_places(const Target& target) {
  auto places = find_malloc(target);
  if (places.ok()) {
    places_ = *std::move(places);
    log_debug("pid {}: malloc is that of {}", target.pid, places_->path);
  } else {
    why_not_ = std::string(places.status().message());
  }
}

std::optional<MallocProbesConfig> NativeHeapByProbes::config() const {
  if (!places_) return std::nullopt;
  return MallocProbesConfig{
      .interval = interval_, .max_hits = max_hits_, .domain_state_offset = domain_state_offset_};
}

double NativeHeapByProbes::rate() const {
  return places_ ? kBytesPerWord / static_cast<double>(interval_) : 0;
}

void NativeHeapByProbes::begin(KernelSide& kernel) {
  if (!places_ || state_ != State::kIdle) return;
  probes_ = kernel.malloc_probes();
  const absl::Status attached = probes_->attach(places_->calls, places_->frees);
  if (!attached.ok()) return end(std::string(attached.message()));
  state_ = State::kCounting;
  counted_since_ = Clock::now();
}

void NativeHeapByProbes::watch() {
  if (state_ == State::kCounting && Clock::now() - counted_since_ >= kCountFor) end_counting();
  if (state_ == State::kFollowing && probes_->over_budget()) {
    end(absl::StrCat("its malloc probes cost more than ", max_hits_,
                     " us in one second; raise --c-heap-max-hits and attach again, or allow the "
                     "agent"));
  }
}

void NativeHeapByProbes::end_counting() {
  const std::chrono::duration<double> took = Clock::now() - counted_since_;
  const auto a_second =
      static_cast<std::uint64_t>(static_cast<double>(probes_->hits()) / took.count());
  if (a_second > max_hits_) {
    return end(absl::StrCat("its calls of malloc and free would cost ", a_second,
                            " us per second, but the limit is ", max_hits_,
                            "; raise --c-heap-max-hits and attach again, or allow the agent"));
  }
  probes_->arm();
  state_ = State::kFollowing;
}

void NativeHeapByProbes::end(std::string why) {
  why_not_ = std::move(why);
  state_ = State::kOff;
  begin_detach();
}

void NativeHeapByProbes::begin_detach() {
  if (probes_ != nullptr) probes_->begin_removal();
}

}  // namespace memprofd
