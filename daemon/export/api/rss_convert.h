// SPDX-License-Identifier: Apache-2.0
// The accounting of a process's memory as messages.
#pragma once

#include "absl/status/statusor.h"
#include "daemon/discover/memory_parts.h"
#include "daemon/export/api/service.h"
#include "daemon/rss/rss_report.h"
#include "memprof/v1/profiler.pb.h"
#include "memprof/v1/rss.pb.h"

namespace memprofd {

// Strings become valid UTF-8.
::memprof::v1::GetRssResponse to_proto(const RssReport& report);
::memprof::v1::MemoryParts to_proto(const MemoryParts& parts);

// Returns the errors of gRPC's GetRss.
absl::StatusOr<::memprof::v1::GetRssResponse> get_rss(ProfilerService& service,
                                                      const ::memprof::v1::GetRssRequest& request,
                                                      const RequestedProcess& process);

}  // namespace memprofd
