// SPDX-License-Identifier: Apache-2.0
// The request of a stream, checked.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/event_stream.h"
#include "daemon/export/api/query_convert.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::uint32_t kAllKinds = 1u << MEMPROF_ALLOC_MINOR | 1u << MEMPROF_ALLOC_MAJOR |
                                    1u << MEMPROF_PROMOTE | 1u << MEMPROF_DEALLOC_MINOR |
                                    1u << MEMPROF_DEALLOC_MAJOR;

absl::StatusOr<std::uint32_t> kinds_of(const pb::StreamEventsRequest& request) {
  std::uint32_t kinds = 0;
  for (const int kind : request.kinds()) {
    if (kind < MEMPROF_ALLOC_MINOR || kind > MEMPROF_DEALLOC_MAJOR) {
      return absl::InvalidArgumentError(
          absl::StrCat("bad kind of event ", kind, ": use a value of EventKind"));
    }
    kinds |= 1u << kind;
  }
  return kinds == 0 ? kAllKinds : kinds;
}

// Empty patterns count for nothing.
bool any(const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [](const auto& p) { return !p.empty(); });
}

// Whether something must be known of a block to pass.
bool about_blocks(const Filter& filter) {
  return any(filter.patterns) || any(filter.require) || any(filter.forbid) ||
         filter.min_size_bytes > 0 || filter.max_size_bytes > 0 || filter.heap || filter.source ||
         !filter.threads.empty() || !filter.domains.empty();
}

}  // namespace

absl::StatusOr<EventQuery> event_query(const pb::StreamEventsRequest& request) {
  ASSIGN_OR_RETURN(const std::uint32_t kinds, kinds_of(request));
  ASSIGN_OR_RETURN(const Filter filter, from_proto(request.filter()));
  if (filter.lifetime.fate != Fate::kAny || filter.lifetime.allocated_in_range) {
    return absl::InvalidArgumentError(
        "bad filter of events: fate and allocated_in_range are of blocks; choose kinds instead");
  }
  ASSIGN_OR_RETURN(FrameFilter frames, FrameFilter::compile(filter));
  EventQuery query{.kinds = kinds,
                   .filter = std::move(frames),
                   .min_lifetime_seconds = filter.lifetime.min_seconds,
                   .max_lifetime_seconds = filter.lifetime.max_seconds,
                   .unknown_blocks = !about_blocks(filter),
                   .full_callstacks = request.full_callstacks(),
                   .cursor = {}};
  if (request.has_cursor()) {
    query.cursor = EventCursor{request.cursor().log(), request.cursor().next_event()};
  }
  return query;
}

}  // namespace memprofd
