// SPDX-License-Identifier: Apache-2.0
// Prepares a session for a pid: inspects the program once, decides whether it gets an agent or is
// observed, and prepares that.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/attach/attach_options.h"
#include "daemon/attach/attached_target.h"
#include "daemon/control/plugin_follower.h"
#include "daemon/discover/target.h"
#include "daemon/model/control.h"
#include "daemon/symbolize/ocaml_symbolizer.h"

namespace memprofd {

struct PreparedTarget {
  std::shared_ptr<AttachedTarget> target;
  std::shared_ptr<OcamlSymbolizer> symbolizer;
  PluginFollower plugins;
  std::string why_observed;  // one line; empty: it has an agent
};

// Inspects the program, which may take long, and does nothing to the process. mode is not kDefault.
absl::StatusOr<PreparedTarget> prepare_target(int pid, const AttachOptions& options,
                                              AttachMode mode, const std::stop_token& stop = {});

// Result of an inspection, without what was attached. The target's file and plugins have been moved
// into the other two members.
struct InspectedProgram {
  Target target;
  std::shared_ptr<OcamlSymbolizer> symbolizer;
  PluginFollower plugins;
};

// Prepares observe mode without another inspection, after the agent in the program has found that
// it cannot sample. why_no_agent begins with the pid; it is returned as kFailedPrecondition if the
// program cannot be observed either.
absl::StatusOr<PreparedTarget> prepare_instead(InspectedProgram found, const AttachOptions& options,
                                               const std::string& why_no_agent);

}  // namespace memprofd
