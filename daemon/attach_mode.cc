#include "daemon/attach_mode.h"

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
      target.abi.end_lines ? LocationFormat::kLines : LocationFormat::kLine);
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

absl::StatusOr<Prepared> prepare_agent(int pid, const AttachOptions& options) {
  ASSIGN_OR_RETURN(Target target, discover_target(pid));
  Prepared prepared = prepare_code(target, "");
  ASSIGN_OR_RETURN(prepared.target, Attachment::prepare(std::move(target), options));
  return prepared;
}

absl::StatusOr<Prepared> prepare_observation(int pid, const AttachOptions& options,
                                             std::string why) {
  ASSIGN_OR_RETURN(Target target, discover_target(pid));
  Prepared prepared = prepare_code(target, std::move(why));
  ASSIGN_OR_RETURN(prepared.target, Observation::prepare(std::move(target), options));
  return prepared;
}

}  // namespace

absl::StatusOr<Prepared> prepare_target(int pid, const AttachOptions& options, AttachMode mode) {
  if (mode == AttachMode::kObserve) return prepare_observation(pid, options, "asked for");
  absl::StatusOr<Prepared> prepared = prepare_agent(pid, options);
  if (mode == AttachMode::kAgent || !is_no_agent_possible(prepared.status())) return prepared;
  return prepare_instead(pid, options, prepared.status());
}

absl::StatusOr<Prepared> prepare_instead(int pid, const AttachOptions& options,
                                         const absl::Status& why) {
  absl::StatusOr<Prepared> prepared = prepare_observation(pid, options, reason(pid, why));
  if (absl::IsFailedPrecondition(prepared.status())) return why;
  return prepared;
}

}  // namespace memprofd
