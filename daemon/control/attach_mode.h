// SPDX-License-Identifier: Apache-2.0
// Which way a program is profiled: with the agent where one can be, else observed.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/attach/attached_target.h"
#include "daemon/attach/attachment.h"
#include "daemon/control/plugin_follower.h"
#include "daemon/model/control.h"
#include "daemon/symbolize/ocaml_symbolizer.h"

namespace memprofd {

struct Prepared {
  std::shared_ptr<AttachedTarget> target;
  std::shared_ptr<OcamlSymbolizer> symbolizer;
  PluginFollower plugins;
  std::string why_observed;  // one line; empty: it is not
};

// Looks at the program, which may take long. Nothing has been done to the process yet. mode is
// not kDefault.
absl::StatusOr<Prepared> prepare_target(int pid, const AttachOptions& options, AttachMode mode,
                                        const std::stop_token& stop = {});
// In observe mode because of that error, which is marked with no_agent_possible(); the
// error itself when that is impossible too.
absl::StatusOr<Prepared> prepare_instead(int pid, const AttachOptions& options,
                                         const absl::Status& why, const std::stop_token& stop = {});

}  // namespace memprofd
