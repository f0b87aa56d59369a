// SPDX-License-Identifier: Apache-2.0
// Snapshots to gRPC messages. Pure; strings become valid UTF-8, which proto3
// demands and a target does not promise.
#pragma once

#include <string_view>

#include "daemon/export/api/service.h"
#include "daemon/model/target_info.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

namespace pb = ::memprof::v1;

pb::TargetState to_proto(TargetState state);
// The displayed word, as state_name(TargetState); "unknown" for other values.
std::string_view state_word(pb::TargetState state);
// unseen_words: what may exist without any sample (util/estimate.h). missing_words: UnseenWords.
pb::Estimate to_proto(const Estimate& estimate, double unseen_words, double missing_words = 0);
pb::Target to_proto(const ProfileSnapshot& target);
pb::Finding to_proto(const Finding& finding);

// Upper bound of the bucket in which the fraction q of the pauses lies, in
// seconds; 0 without pauses.
double pause_quantile_seconds(const memprof_pauses& pauses, double q);

}  // namespace memprofd
