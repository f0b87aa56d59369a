// SPDX-License-Identifier: Apache-2.0
// The difference of two answers that come from different sources.
#pragma once

#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

// Computes what DiffSites answers for one source. request: group_by, order, limit, per_second. Both
// answers must be without a limit.
::memprof::v1::DiffSitesResponse join_sites(const ::memprof::v1::ListSitesResponse& base,
                                            const ::memprof::v1::ListSitesResponse& other,
                                            const ::memprof::v1::DiffSitesRequest& request);

}  // namespace memprofd::ctl
