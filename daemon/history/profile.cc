// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/profile.h"

#include "daemon/model/measure.h"

namespace memprofd {

double UnseenWords::of(Blocks blocks) const { return blocks == Blocks::kLive ? live : flow; }

}  // namespace memprofd
