// SPDX-License-Identifier: Apache-2.0
// Checks the request of a stream of events.
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

constexpr std::uint32_t kKindsOfC = 1u << pb::EVENT_KIND_C_ALLOC | 1u << pb::EVENT_KIND_C_FREE;
constexpr std::uint32_t kOtherKinds =
    1u << pb::EVENT_KIND_ALLOC_MINOR | 1u << pb::EVENT_KIND_ALLOC_MAJOR |
    1u << pb::EVENT_KIND_PROMOTE | 1u << pb::EVENT_KIND_DEALLOC_MINOR |
    1u << pb::EVENT_KIND_DEALLOC_MAJOR;

// The requested kinds that can occur in the stream: those of the native heap, or all others.
absl::StatusOr<std::uint32_t> kinds_of(const pb::StreamEventsRequest& request, bool of_c) {
  const std::uint32_t possible = of_c ? kKindsOfC : kOtherKinds;
  if (request.kinds().empty()) return possible;
  std::uint32_t kinds = 0;
  for (const int kind : request.kinds()) {
    if (kind <= pb::EVENT_KIND_UNSPECIFIED || kind > pb::EventKind_MAX) {
      return absl::InvalidArgumentError(
          absl::StrCat("bad kind of event ", kind, ": use a value of EventKind"));
    }
    kinds |= 1u << kind;
  }
  if ((kinds & possible) != 0) return kinds & possible;
  return absl::InvalidArgumentError(
      "no event has such a kind and heap: C_ALLOC and C_FREE go with BLOCK_HEAP_C, the other kinds "
      "with other heaps");
}

bool is_of_c(const Filter& filter) {
  return filter.heap == HeapKind::kC || filter.source == Source::kMalloc;
}

// Ignores empty patterns.
bool any(const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [](const auto& p) { return !p.empty(); });
}

// True if the filter needs facts about the block. Whether it is native is always known.
bool about_blocks(const Filter& filter) {
  const bool in_some = (filter.heap && filter.heap != HeapKind::kC) ||
                       (filter.source && filter.source != Source::kMalloc);
  return any(filter.patterns) || any(filter.require) || any(filter.forbid) ||
         filter.min_size_bytes > 0 || filter.max_size_bytes > 0 || in_some ||
         !filter.threads.empty() || !filter.domains.empty();
}

}  // namespace

absl::StatusOr<EventQuery> event_query(const pb::StreamEventsRequest& request) {
  ASSIGN_OR_RETURN(const Filter filter, from_proto(request.filter()));
  const bool of_c = is_of_c(filter);
  ASSIGN_OR_RETURN(const std::uint32_t kinds, kinds_of(request, of_c));
  if (filter.lifetime.fate != Fate::kAny || filter.lifetime.allocated_in_range) {
    return absl::InvalidArgumentError(
        "bad filter of events: fate and allocated_in_range are of blocks; choose kinds instead");
  }
  ASSIGN_OR_RETURN(FrameFilter frames, FrameFilter::compile(filter));
  EventQuery query{.kinds = kinds,
                   .of_c = of_c,
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
