// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/prepare_target.h"

#include <utility>

#include "daemon/attach/agent_attachment.h"
#include "daemon/attach/agent_plan.h"
#include "daemon/attach/observe_attachment.h"
#include "daemon/attach/target_lock.h"
#include "daemon/model/requested_process.h"
#include "daemon/util/about_pid.h"
#include "daemon/util/refusal.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Fails if the inspection was abandoned, so that it does not take the target's lock.
absl::StatusOr<InspectedProgram> find_program(int pid, const std::stop_token& stop) {
  absl::StatusOr<Target> found = discover_target(pid, "/proc", stop);
  if (stop.stop_requested()) return absl::CancelledError("given up");
  ASSIGN_OR_RETURN(Target target, std::move(found));
  InspectedProgram program;
  program.symbolizer = symbolizer_of(target);
  program.plugins = PluginFollower(target, program.symbolizer);
  program.target = std::move(target);
  return program;
}

absl::StatusOr<TargetLock> take_lock(const Target& target) {
  return TargetLock::acquire(target.pid, target.start_time_ticks);
}

PreparedTarget with_code(std::shared_ptr<AttachedTarget> target, InspectedProgram found,
                         std::string why_observed) {
  found.plugins.add_found(*target);
  return {.target = std::move(target),
          .symbolizer = std::move(found.symbolizer),
          .plugins = std::move(found.plugins),
          .why_observed = std::move(why_observed)};
}

absl::StatusOr<PreparedTarget> prepare_agent(InspectedProgram found, TargetLock lock,
                                             AgentPlan plan, const AttachOptions& options) {
  ASSIGN_OR_RETURN(
      std::shared_ptr<AttachedTarget> target,
      AgentAttachment::prepare(std::move(found.target), std::move(lock), std::move(plan), options));
  return with_code(std::move(target), std::move(found), "");
}

absl::StatusOr<PreparedTarget> prepare_observation(InspectedProgram found, TargetLock lock,
                                                   const AttachOptions& options, std::string why) {
  ASSIGN_OR_RETURN(std::shared_ptr<AttachedTarget> target,
                   ObserveAttachment::prepare(std::move(found.target), std::move(lock), options));
  return with_code(std::move(target), std::move(found), std::move(why));
}

absl::StatusOr<PreparedTarget> observe_instead(InspectedProgram found, TargetLock lock,
                                               const AttachOptions& options,
                                               const std::string& why_no_agent,
                                               Refusal refusal = Refusal::kOther) {
  std::string why = without_pid(found.target.pid, why_no_agent);
  auto prepared = prepare_observation(std::move(found), std::move(lock), options, std::move(why));
  if (!absl::IsFailedPrecondition(prepared.status())) return prepared;
  return refused(refusal, why_no_agent);
}

}  // namespace

absl::StatusOr<PreparedTarget> prepare_target(int pid, const AttachOptions& options,
                                              AttachMode mode, const std::stop_token& stop) {
  ASSIGN_OR_RETURN(InspectedProgram found, find_program(pid, stop));
  // Since the request, the pid may have been reused or the process may have gained privileges.
  RETURN_IF_ERROR(check_is_meant({pid, options.start_time_ticks, options.user},
                                 found.target.start_time_ticks, found.target.owner));
  ASSIGN_OR_RETURN(TargetLock held, take_lock(found.target));
  if (mode == AttachMode::kObserve) {
    return prepare_observation(std::move(found), std::move(held), options, "asked for");
  }
  ASSIGN_OR_RETURN(AgentPlan plan, plan_agent(found.target, options));
  if (plan.why_none.empty()) {
    return prepare_agent(std::move(found), std::move(held), std::move(plan), options);
  }
  if (mode == AttachMode::kAgent) return refused(plan.refusal, plan.why_none);
  return observe_instead(std::move(found), std::move(held), options, plan.why_none, plan.refusal);
}

absl::StatusOr<PreparedTarget> prepare_instead(InspectedProgram found, const AttachOptions& options,
                                               const std::string& why_no_agent) {
  ASSIGN_OR_RETURN(TargetLock held, take_lock(found.target));
  auto prepared = observe_instead(std::move(found), std::move(held), options, why_no_agent);
  if (prepared.ok()) prepared->plugins.add_again(*prepared->target);
  return prepared;
}

}  // namespace memprofd
