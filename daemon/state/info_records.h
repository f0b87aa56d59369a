// SPDX-License-Identifier: Apache-2.0
// Converts the facts about a target, except its counts, to records and back.
#pragma once

#include "daemon/model/target_info.h"
#include "state/state.pb.h"

namespace memprofd {

void put_info(const TargetInfo& info, state::Info& out);
TargetInfo get_info(const state::Info& message);

}  // namespace memprofd
