// SPDX-License-Identifier: Apache-2.0
// Checks the kernel, memprofd's privileges and one program, with a remedy for each problem. Reads
// only; changes nothing.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "daemon/model/control.h"

namespace memprofd {

// pid 0: kernel, privileges and agent file only. It opens files of the program, so it may take
// long: after the stop it soon ends, and what it has found is not all.
std::vector<Finding> run_doctor(int pid, const std::string& agent_path,
                                const std::stop_token& stop = {});

}  // namespace memprofd
