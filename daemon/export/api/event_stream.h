// SPDX-License-Identifier: Apache-2.0
// Events of a log as the messages of one StreamEvents call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "daemon/export/api/grpc_convert.h"
#include "daemon/history/event_log.h"
#include "daemon/query/frame_filter.h"
#include "daemon/query/visible_frames.h"

namespace memprofd {

// The selection of one reader.
struct EventQuery {
  std::uint32_t kinds = 0;  // bit k: EventKind k
  bool of_c = false;        // only native blocks, or only others
  FrameFilter filter;
  // Bounds for the lifetimes of reported deallocations; 0: no bound.
  double min_lifetime_seconds = 0;
  double max_lifetime_seconds = 0;
  // Also report events of blocks about which nothing is known.
  bool unknown_blocks = false;
  bool full_callstacks = false;
  std::optional<EventCursor> cursor;
};

// kInvalidArgument: unknown kinds, bad patterns, or conditions on the fate of a block, which an
// event does not contain.
absl::StatusOr<EventQuery> event_query(const pb::StreamEventsRequest& request);

struct EventStreamLimits {
  std::size_t events = 512;               // in a message
  std::size_t text_bytes = 1u << 19;      // of callstacks in a message; one callstack may exceed it
  std::size_t known_callstacks = 65'536;  // then all are forgotten and sent again
  // After this number of events that did not pass the filter, a message with a cursor is sent.
  std::size_t silent_events = 65'536;
};

// Not thread-safe.
class EventStream {
 public:
  // Returns false if the client has gone.
  using Send = std::function<bool(const pb::StreamEventsResponse&)>;

  EventStream(EventQuery query, std::shared_ptr<Symbolizer> symbolizer,
              EventStreamLimits limits = {});

  // Sends the events that pass the filter. The first call always sends a message, once recording
  // has begun. Returns false if send() returned false.
  bool put(const EventRead& read, const Send& send);

 private:
  enum class Verdict : std::uint8_t { kUnknown, kPasses, kFails };

  bool put(const EventSlice& slice, std::uint64_t log, const Send& send);
  bool send_message(EventCursor cursor, const Send& send);
  bool message_full() const;
  bool wanted(const SampleEvent& event, const EventClass& alloc_class);
  bool passes(const EventClass& alloc_class);
  bool lifetime_passes(const SampleEvent& event) const;
  void add(const SampleEvent& event, const EventClass& alloc_class);
  void introduce(const EventClass& alloc_class);

  const EventQuery query_;
  const std::shared_ptr<Symbolizer> symbolizer_;
  const EventStreamLimits limits_;
  const std::int64_t unix_offset_ns_;  // of CLOCK_MONOTONIC
  RowFilter filter_;
  VisibleFrames frames_;
  std::vector<Verdict> verdicts_;  // by class
  absl::flat_hash_set<CallstackId> known_;

  pb::StreamEventsResponse message_;
  std::size_t text_bytes_ = 0;  // of message_'s callstacks
  std::size_t silent_ = 0;      // events examined since the last message
  bool begun_ = false;
};

}  // namespace memprofd
