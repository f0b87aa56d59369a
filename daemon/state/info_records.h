// SPDX-License-Identifier: Apache-2.0
// What is known of a target besides its counts, as a record has it and back.
#pragma once

#include "daemon/model/target_info.h"
#include "state/state.pb.h"

namespace memprofd {

void put_info(const TargetInfo& info, state::Info& out);
TargetInfo get_info(const state::Info& message);

}  // namespace memprofd
