// SPDX-License-Identifier: Apache-2.0
// The checks of a process that do not depend on its program.
#pragma once

#include <string>
#include <vector>

#include "daemon/discover/proc_fs.h"
#include "daemon/model/control.h"

namespace memprofd {

// Level kProblem: attach refuses. kWarning: it can only observe.
bool forbids_injection(const Finding& finding);

// State, namespaces and root, C library, stack limit; and what forbids an injection (tracer,
// seccomp), which is fine when none is needed. Nothing about a process that is gone.
std::vector<Finding> examine_process(const ProcFs& proc, int pid, bool injection_needed,
                                     const std::string& agent_path);

}  // namespace memprofd
