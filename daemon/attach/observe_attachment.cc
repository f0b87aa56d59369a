// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/observe_attachment.h"

#include "absl/strings/str_cat.h"
#include "daemon/attach/kernel/kernel_walk.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

KernelConfig observe_config(const Target& target, const AttachOptions& options) {
  KernelConfig config = kernel_config(target, options);
  config.observe = true;
  config.current_stack_offset = target.abi.current_stack;
  config.stat_words_offset = target.abi.stats;
  config.young_ptr_offset = target.abi.young_ptr;
  config.young_end_offset = target.abi.young_alloc_end;
  config.young_limit_offset = target.abi.young_limit;
  config.domain_id_offset = target.abi.domain_index;
  return config;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ObserveAttachment>> ObserveAttachment::prepare(
    Target target, TargetLock lock, const AttachOptions& options) {
  if (!target.why_no_observe.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("pid ", target.pid, " cannot be observed: ", target.why_no_observe));
  }
  RETURN_IF_ERROR(check_kernel_walks(absl::StrCat("pid ", target.pid, " cannot be observed")));
  std::unique_ptr<ObserveAttachment> observation(
      new ObserveAttachment(std::move(target), std::move(lock), options));
  const Target& kept = observation->target_;
  KernelConfig config = observe_config(kept, options);
  config.malloc_probes = observation->native_heap_.config();
  ASSIGN_OR_RETURN(observation->kernel_, load_for(kept, config));
  return observation;
}

std::vector<std::uint64_t> ObserveAttachment::probe_addresses() const {
  std::vector<std::uint64_t> addresses{target_.slow_allocation.address};
  if (const std::uint64_t plugins = target_.register_frametable.address; plugins != 0) {
    addresses.push_back(plugins);
  }
  return addresses;
}

bool ObserveAttachment::detached() {
  return native_heap_.detached() &&
         kernel_->probes().detached(target_.memory->quick(), probe_addresses());
}

void ObserveAttachment::detach() {
  begin_detach();
  if (kernel_->malloc_probes() != nullptr) kernel_->malloc_probes()->remove();
  kernel_->probes().detach();
  lock_.release();
}

absl::StatusOr<std::shared_ptr<const CopyLease>> ObserveAttachment::copy_lease() {
  return absl::FailedPreconditionError(absl::StrCat(
      "no snapshot can be taken of pid ", target_.pid,
      ": it is in observe mode, without an agent; `memprofctl targets` shows why: remove "
      "the reason, then detach and attach again"));
}

absl::Status ObserveAttachment::begin(double, memprof_capture_by) {
  native_heap_.begin(*kernel_);
  return kernel_->probes().attach(Probe::kObserve,
                                  site_in_program(target_, target_.slow_allocation));
}

}  // namespace memprofd
