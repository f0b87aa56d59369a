// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/control_service.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/grpc_convert.h"
#include "daemon/export/api/heap_requests.h"
#include "daemon/export/api/request_checks.h"
#include "daemon/history/snapshot.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {

namespace pb = ::memprof::v1;

namespace {

absl::StatusOr<AttachMode> mode_of(pb::AttachMode mode) {
  switch (mode) {
    case pb::ATTACH_MODE_UNSPECIFIED:
      return AttachMode::kDefault;
    case pb::ATTACH_MODE_AUTO:
      return AttachMode::kAuto;
    case pb::ATTACH_MODE_AGENT:
      return AttachMode::kAgent;
    case pb::ATTACH_MODE_OBSERVE:
      return AttachMode::kObserve;
    case pb::AttachMode_INT_MIN_SENTINEL_DO_NOT_USE_:
    case pb::AttachMode_INT_MAX_SENTINEL_DO_NOT_USE_:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown mode ", static_cast<int>(mode), ": use a value of AttachMode"));
}

// nullopt if the field is not set: the rate keeps its budget, an attach gets the default. 0 means
// no budget.
template <typename Request>
absl::StatusOr<std::optional<double>> budget_of(const Request& request) {
  if (!request.has_max_overhead()) return std::nullopt;
  if (request.max_overhead() != 0) RETURN_IF_ERROR(check_share(request.max_overhead()));
  return request.max_overhead();
}

absl::StatusOr<std::optional<std::uint64_t>> native_interval_of(const pb::AttachRequest& request) {
  if (!request.has_c_heap_interval()) return std::nullopt;
  const std::uint64_t interval = request.c_heap_interval();
  if (interval == 0 || (interval >= kMinNativeHeapInterval && interval <= kMaxNativeHeapInterval)) {
    return interval;
  }
  return absl::InvalidArgumentError(absl::StrCat("bad c_heap_interval ", interval, ": write 0 or ",
                                                 kMinNativeHeapInterval, " to ",
                                                 kMaxNativeHeapInterval, " bytes"));
}

}  // namespace

absl::StatusOr<pb::AttachResponse> ControlService::attach(const pb::AttachRequest& request,
                                                          const RequestedProcess& process) {
  RETURN_IF_ERROR(check_process(service_, process));
  const double rate = request.sampling_rate();
  if (rate != 0) RETURN_IF_ERROR(check_rate(rate));
  ASSIGN_OR_RETURN(const std::optional<double> max_overhead, budget_of(request));
  ASSIGN_OR_RETURN(const AttachMode mode, mode_of(request.mode()));
  ASSIGN_OR_RETURN(const std::optional<std::uint64_t> native_interval, native_interval_of(request));
  const absl::StatusOr<TargetInfo> info =
      service_.attach({.pid = request.pid(),
                       .sampling_rate = rate,
                       .no_inject = request.no_inject(),
                       .mode = mode,
                       .follow_forks = request.follow_forks(),
                       .max_overhead = max_overhead,
                       .start_time_ticks = process.start_time_ticks,
                       .user = process.user,
                       .native_heap_interval = native_interval});
  const absl::StatusOr<ProfileSnapshotPtr> target = service_.snapshot(request.pid());
  pb::AttachResponse response;
  if (!info.ok()) {
    // Only a process that this memprofd profiles counts as attached.
    const bool is_there =
        absl::IsAlreadyExists(info.status()) && target.ok() && is_active((*target)->info.state);
    if (!request.if_needed() || !is_there) return info.status();
    response.set_already_profiled(true);
  }
  if (target.ok()) {
    *response.mutable_target() = to_proto(**target);
  } else {  // ended and forgotten at once
    ProfileSnapshot last;
    last.info = *info;
    *response.mutable_target() = to_proto(last);
  }
  return response;
}

absl::StatusOr<pb::DetachResponse> ControlService::detach(const pb::DetachRequest& request,
                                                          const RequestedProcess& process) {
  RETURN_IF_ERROR(check_process(service_, process));
  RETURN_IF_ERROR(service_.detach(process));
  pb::DetachResponse response;
  const absl::StatusOr<ProfileSnapshotPtr> target = service_.snapshot(request.pid());
  if (target.ok()) {
    *response.mutable_target() = to_proto(**target);
  } else {
    response.mutable_target()->set_pid(request.pid());
    response.mutable_target()->set_state(pb::TARGET_STATE_DETACHED);
  }
  return response;
}

absl::StatusOr<pb::SnapshotSummary> ControlService::take_snapshot(
    const pb::TakeSnapshotRequest& request, const RequestedProcess& process,
    const HeapClient& client, HeapContents contents) {
  RETURN_IF_ERROR(check_process(service_, process));
  ASSIGN_OR_RETURN(HeapRequest asked, heap_request(request, contents));
  asked.process = process;
  return heap_answer(service_.take_heap(asked, client));
}

absl::StatusOr<pb::SetRateResponse> ControlService::set_rate(const pb::SetRateRequest& request,
                                                             const RequestedProcess& process) {
  RETURN_IF_ERROR(check_process(service_, process));
  const double rate = request.sampling_rate();
  if (rate != 0 || !request.has_max_overhead()) RETURN_IF_ERROR(check_rate(rate));
  ASSIGN_OR_RETURN(const std::optional<double> max_overhead, budget_of(request));
  RETURN_IF_ERROR(
      service_.set_rate(process, {.sampling_rate = rate, .max_overhead = max_overhead}));
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr target, service_.snapshot(request.pid()));
  pb::SetRateResponse response;
  *response.mutable_target() = to_proto(*target);
  return response;
}

}  // namespace memprofd
