// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/profile_streams.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/api/event_stream.h"
#include "daemon/export/api/heap_requests.h"
#include "daemon/history/snapshot.h"
#include "daemon/query/observe_mode_rules.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

using std::chrono::steady_clock;

// Events of a continuing log that a stream keeps for a client that does not read.
constexpr std::size_t kEventsARead = 4096;
// Time within which a stream of events notices that its client has gone.
constexpr std::chrono::milliseconds kEventsWait{100};
constexpr double kShortestInterval = 0.1;
constexpr double kLongestInterval = 3600;

// 0 when the interval is not valid.
double interval_seconds(double asked) {
  if (asked == 0) return 1;
  return asked >= kShortestInterval && asked <= kLongestInterval ? asked : 0;
}

}  // namespace

absl::Status watch_sites(QueryService& queries, const pb::WatchSitesRequest& request,
                         const StreamCall<pb::ListSitesResponse>& call) {
  const double seconds = interval_seconds(request.interval_seconds());
  if (seconds == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad interval ", request.interval_seconds(), " s: it is 0.1 to 3600"));
  }
  const auto interval =
      std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(seconds));
  const auto answer = [&]() -> absl::StatusOr<pb::ListSitesResponse> {
    ASSIGN_OR_RETURN(const AnswerTurns::Turn turn, call.turn());
    return queries.first_sites(request.query());
  };
  auto next = steady_clock::now();
  do {
    ASSIGN_OR_RETURN(const pb::ListSitesResponse sites, answer());
    if (!call.send(sites)) break;
    next = std::max(next + interval, steady_clock::now());  // a slow reader gets fewer messages
  } while (call.wait(next));
  return absl::OkStatus();
}

absl::Status stream_profile(QueryService& queries, const pb::GetProfileRequest& request,
                            const StreamCall<pb::StreamProfileResponse>& call) {
  const auto profile = [&]() -> absl::StatusOr<pb::GetProfileResponse> {
    ASSIGN_OR_RETURN(const AnswerTurns::Turn turn, call.turn());
    return queries.get_profile(request);
  };
  ASSIGN_OR_RETURN(const pb::GetProfileResponse made, profile());
  const std::string& data = made.data();
  pb::StreamProfileResponse piece;
  piece.set_content_type(made.content_type());
  piece.set_file_name(made.file_name());
  piece.set_total_bytes(data.size());
  std::size_t at = 0;
  do {
    piece.set_data(data.substr(at, kProfilePieceBytes));
    if (!call.send(piece)) return absl::CancelledError();
    piece.Clear();
    at += kProfilePieceBytes;
  } while (at < data.size());
  return absl::OkStatus();
}

absl::Status stream_events(ProfilerService& service, const pb::StreamEventsRequest& request,
                           const StreamCall<pb::StreamEventsResponse>& call) {
  ASSIGN_OR_RETURN(EventQuery query, event_query(request));
  ASSIGN_OR_RETURN(ProfileSnapshotPtr target, service.snapshot(request.pid()));
  RETURN_IF_ERROR(check_follows_blocks(*target, "events of single blocks"));
  if (query.of_c) RETURN_IF_ERROR(check_follows_c(*target));
  if (target->events == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("pid ", request.pid(), " has no events to stream: attach to it first"));
  }
  ASSIGN_OR_RETURN(EventReader reader, EventReader::open(target->events, query.cursor));
  EventStream stream(std::move(query), target->symbolizer);
  target.reset();  // its counts are not needed
  while (call.wait(steady_clock::now())) {
    const EventRead read = reader.read(kEventsARead, kEventsWait);
    if (!stream.put(read, call.send) || read.ended) break;
  }
  return absl::OkStatus();
}

absl::Status take_snapshot(ControlService& control, const pb::TakeSnapshotRequest& request,
                           HeapContents contents,
                           const StreamCall<pb::TakeSnapshotResponse>& call) {
  const HeapClient client{.take =
                              [&](std::string_view bytes) {
                                pb::TakeSnapshotResponse message;
                                message.set_data(bytes.data(), bytes.size());
                                return call.send(message);
                              },
                          .waits = [&] { return call.wait({}); }};
  ASSIGN_OR_RETURN(const pb::SnapshotSummary summary,
                   control.take_snapshot(request, call.process, client, contents));
  call.done(cost_of(summary));
  pb::TakeSnapshotResponse last;
  *last.mutable_summary() = summary;
  call.send(last);
  return absl::OkStatus();
}

absl::Status take_heap(ControlService& control, const pb::TakeHeapRequest& request,
                       const StreamCall<pb::TakeSnapshotResponse>& call) {
  ASSIGN_OR_RETURN(const HeapContents contents, contents_of(request.contents()));
  return take_snapshot(control, request.snapshot(), contents, call);
}

std::string name_of(const pb::TakeHeapRequest& request) {
  switch (request.contents()) {
    case pb::HEAP_CONTENTS_ALL:
      return "snapshot with contents";
    case pb::HEAP_CONTENTS_FINGERPRINTS:
      return "snapshot with fingerprints";
    default:
      return "snapshot";
  }
}

}  // namespace memprofd
