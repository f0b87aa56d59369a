// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/attach_mode.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/attach/observation.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// All but the attached target itself, for which the rest of the target is.
Prepared prepare_code(Target& target, std::string why_observed) {
  Prepared prepared;
  prepared.symbolizer = std::make_shared<OcamlSymbolizer>(
      std::move(target.program), target.load_bias, target.frames,
      target.abi.end_lines ? LocationFormat::kLines : LocationFormat::kLine, target.budget);
  prepared.plugins = PluginFollower(target, prepared.symbolizer);
  prepared.why_observed = std::move(why_observed);
  return prepared;
}

// What is said of a pid without the pid.
std::string reason(int pid, const absl::Status& status) {
  absl::string_view text = status.message();
  if (absl::ConsumePrefix(&text, absl::StrCat("pid ", pid))) {
    if (!absl::ConsumePrefix(&text, ": ")) absl::ConsumePrefix(&text, " ");
  }
  return std::string(text);
}

// What nobody waits for any more must not get as far as to take the target's lock.
absl::StatusOr<Target> discover(int pid, const std::stop_token& stop) {
  absl::StatusOr<Target> target = discover_target(pid, "/proc", stop);
  if (stop.stop_requested()) return absl::CancelledError("given up");
  return target;
}

absl::StatusOr<Prepared> prepare_agent(int pid, const AttachOptions& options,
                                       const std::stop_token& stop) {
  ASSIGN_OR_RETURN(Target target, discover(pid, stop));
  Prepared prepared = prepare_code(target, "");
  ASSIGN_OR_RETURN(prepared.target, Attachment::prepare(std::move(target), options));
  prepared.plugins.add_found(*prepared.target);
  return prepared;
}

absl::StatusOr<Prepared> prepare_observation(int pid, const AttachOptions& options, std::string why,
                                             const std::stop_token& stop) {
  ASSIGN_OR_RETURN(Target target, discover(pid, stop));
  Prepared prepared = prepare_code(target, std::move(why));
  ASSIGN_OR_RETURN(prepared.target, Observation::prepare(std::move(target), options));
  prepared.plugins.add_found(*prepared.target);
  return prepared;
}

}  // namespace

absl::StatusOr<Prepared> prepare_target(int pid, const AttachOptions& options, AttachMode mode,
                                        const std::stop_token& stop) {
  if (mode == AttachMode::kObserve) return prepare_observation(pid, options, "asked for", stop);
  absl::StatusOr<Prepared> prepared = prepare_agent(pid, options, stop);
  if (mode == AttachMode::kAgent || !is_no_agent_possible(prepared.status())) return prepared;
  return prepare_instead(pid, options, prepared.status(), stop);
}

absl::StatusOr<Prepared> prepare_instead(int pid, const AttachOptions& options,
                                         const absl::Status& why, const std::stop_token& stop) {
  absl::StatusOr<Prepared> prepared = prepare_observation(pid, options, reason(pid, why), stop);
  if (absl::IsFailedPrecondition(prepared.status())) return why;
  return prepared;
}

}  // namespace memprofd
