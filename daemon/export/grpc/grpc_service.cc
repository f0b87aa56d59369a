// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/discover/process_owner.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/api/event_stream.h"
#include "daemon/export/api/grpc_convert.h"
#include "daemon/export/api/request_checks.h"
#include "daemon/export/grpc/grpc_status.h"
#include "daemon/history/snapshot.h"
#include "daemon/query/observe_mode_rules.h"

namespace memprofd {
namespace {

using std::chrono::steady_clock;

// Maximum number of events in one read of the log.
constexpr std::size_t kEventsARead = 4096;
constexpr double kShortestInterval = 0.1;
constexpr double kLongestInterval = 3600;

// 0 when the interval is not valid.
double interval_seconds(double asked) {
  if (asked == 0) return 1;
  return asked >= kShortestInterval && asked <= kLongestInterval ? asked : 0;
}

// The kernel keeps the paths of other users' programs from him, too.
void keep_programs_of(const ProcessUser& user, pb::ListTargetsResponse& response) {
  auto& programs = *response.mutable_discovered();
  const ProcFs proc;
  const auto not_his = [&](const pb::DiscoveredProgram& program) {
    return !check_is_meant_now(proc, {program.pid(), program.process_start_ticks(), user}).ok();
  };
  programs.erase(std::remove_if(programs.begin(), programs.end(), not_his), programs.end());
  response.clear_discovered_left_out();
  response.clear_unread_files();
  response.clear_ended_early();
}

}  // namespace

template <typename Request, typename Response>
grpc::Status GrpcService::answer(const grpc::ServerContext& context, AnswerTurns& turns,
                                 absl::StatusOr<Response> (QueryService::*ask)(const Request&),
                                 const Request& request, Response& response) {
  const auto turn = turns.take(GrpcAccess::caller(context).user());
  return turn.ok() ? grpc_answer((queries_.*ask)(request), response) : to_grpc(turn.status());
}

absl::StatusOr<pb::GetProfileResponse> GrpcService::profile(const grpc::ServerContext& context,
                                                            const pb::GetProfileRequest& request) {
  const auto turn = turns_.take(GrpcAccess::caller(context).user());
  if (!turn.ok()) return turn.status();
  return queries_.get_profile(request);
}

grpc::Status GrpcService::ListTargets(grpc::ServerContext* context,
                                      const pb::ListTargetsRequest* request,
                                      pb::ListTargetsResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  *response = queries_.list_targets(*request);
  if (const auto user = access_.user_for(GrpcAccess::caller(*context))) {
    keep_programs_of(*user, *response);
  }
  return grpc::Status::OK;
}

template <typename Request, typename Response>
grpc::Status GrpcService::command(
    const grpc::ServerContext& context, const Request& request,
    absl::StatusOr<Response> (ControlService::*run)(const Request&, const AskedProcess&),
    Response& response) {
  const auto call = access_.begin(context);
  if (!call.ok()) return to_grpc(call.status());
  const GrpcCaller caller = GrpcAccess::caller(context);
  const auto process = access_.process_for(caller, request.pid(), request.process_start_ticks());
  absl::StatusOr<Response> result =
      process.ok() ? (control_.*run)(request, *process) : process.status();
  audit(request.pid(), name_of(request), caller.name, result.status());
  return grpc_answer(std::move(result), response);
}

grpc::Status GrpcService::Attach(grpc::ServerContext* context, const pb::AttachRequest* request,
                                 pb::AttachResponse* response) {
  return command(*context, *request, &ControlService::attach, *response);
}

grpc::Status GrpcService::Detach(grpc::ServerContext* context, const pb::DetachRequest* request,
                                 pb::DetachResponse* response) {
  return command(*context, *request, &ControlService::detach, *response);
}

grpc::Status GrpcService::SetRate(grpc::ServerContext* context, const pb::SetRateRequest* request,
                                  pb::SetRateResponse* response) {
  return command(*context, *request, &ControlService::set_rate, *response);
}

grpc::Status GrpcService::TakeSnapshot(grpc::ServerContext* context,
                                       const pb::TakeSnapshotRequest* request,
                                       grpc::ServerWriter<pb::TakeSnapshotResponse>* writer) {
  return heap_stream_.send(*context, *request, HeapContents::kNone, *writer);
}

grpc::Status GrpcService::ListSites(grpc::ServerContext* context,
                                    const pb::ListSitesRequest* request,
                                    pb::ListSitesResponse* response) {
  return answer(*context, turns_, &QueryService::list_sites, *request, *response);
}

grpc::Status GrpcService::DiffSites(grpc::ServerContext* context,
                                    const pb::DiffSitesRequest* request,
                                    pb::DiffSitesResponse* response) {
  return answer(*context, turns_, &QueryService::diff_sites, *request, *response);
}

grpc::Status GrpcService::ListCallers(grpc::ServerContext* context,
                                      const pb::ListCallersRequest* request,
                                      pb::ListCallersResponse* response) {
  return answer(*context, turns_, &QueryService::list_callers, *request, *response);
}

grpc::Status GrpcService::ListLeaks(grpc::ServerContext* context,
                                    const pb::ListLeaksRequest* request,
                                    pb::ListLeaksResponse* response) {
  return answer(*context, turns_, &QueryService::list_leaks, *request, *response);
}

grpc::Status GrpcService::GetHistory(grpc::ServerContext* context,
                                     const pb::GetHistoryRequest* request,
                                     pb::GetHistoryResponse* response) {
  return answer(*context, turns_, &QueryService::get_history, *request, *response);
}

grpc::Status GrpcService::GetProfile(grpc::ServerContext* context,
                                     const pb::GetProfileRequest* request,
                                     pb::GetProfileResponse* response) {
  return grpc_answer(profile(*context, *request), *response);
}

grpc::Status GrpcService::StreamProfile(grpc::ServerContext* context,
                                        const pb::GetProfileRequest* request,
                                        grpc::ServerWriter<pb::StreamProfileResponse>* writer) {
  const auto slot = streams_.take(*context);
  if (!slot) return no_stream_left();
  const absl::StatusOr<pb::GetProfileResponse> made = profile(*context, *request);
  if (!made.ok()) return to_grpc(made.status());
  const std::string& data = made->data();
  pb::StreamProfileResponse piece;
  piece.set_content_type(made->content_type());
  piece.set_file_name(made->file_name());
  piece.set_total_bytes(data.size());
  std::size_t at = 0;
  do {
    piece.set_data(data.substr(at, kProfilePieceBytes));
    if (!slot->write([&] { return writer->Write(piece); })) return grpc::Status::CANCELLED;
    piece.Clear();
    at += kProfilePieceBytes;
  } while (at < data.size());
  return grpc::Status::OK;
}

grpc::Status GrpcService::WatchSites(grpc::ServerContext* context,
                                     const pb::WatchSitesRequest* request,
                                     grpc::ServerWriter<pb::ListSitesResponse>* writer) {
  const auto slot = streams_.take(*context);
  if (!slot) return no_stream_left();
  const double seconds = interval_seconds(request->interval_seconds());
  if (seconds == 0) {
    return to_grpc(absl::InvalidArgumentError(
        absl::StrCat("bad interval ", request->interval_seconds(), " s: it is 0.1 to 3600")));
  }
  const auto interval =
      std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(seconds));
  auto next = steady_clock::now();
  do {
    pb::ListSitesResponse sites;
    const grpc::Status status =
        answer(*context, watched_, &QueryService::first_sites, request->query(), sites);
    if (!status.ok()) return status;
    if (!slot->write([&] { return writer->Write(sites); })) break;
    next = std::max(next + interval, steady_clock::now());  // a slow reader gets fewer messages
  } while (wait_for_next(*context, stop_, next));
  return grpc::Status::OK;
}

grpc::Status GrpcService::StreamEvents(grpc::ServerContext* context,
                                       const pb::StreamEventsRequest* request,
                                       grpc::ServerWriter<pb::StreamEventsResponse>* writer) {
  const auto slot = streams_.take(*context);
  if (!slot) return no_stream_left();
  absl::StatusOr<EventQuery> query = event_query(*request);
  if (!query.ok()) return to_grpc(query.status());
  absl::StatusOr<ProfileSnapshotPtr> target = service_.snapshot(request->pid());
  if (!target.ok()) return to_grpc(target.status());
  if (absl::Status known = check_follows_blocks(**target, "events of single blocks"); !known.ok()) {
    return to_grpc(known);
  }
  if (query->of_c) {
    if (absl::Status followed = check_follows_c(**target); !followed.ok()) return to_grpc(followed);
  }
  if ((*target)->events == nullptr) {
    return to_grpc(absl::FailedPreconditionError(
        absl::StrCat("pid ", request->pid(), " has no events to stream: attach to it first")));
  }
  absl::StatusOr<EventReader> reader = EventReader::open((*target)->events, query->cursor);
  if (!reader.ok()) return to_grpc(reader.status());
  EventStream stream(*std::move(query), (*target)->symbolizer);
  target->reset();  // its counts are not needed
  const auto send = [&](const pb::StreamEventsResponse& message) {
    return slot->write([&] { return writer->Write(message); });
  };
  while (wait_for_next(*context, stop_, steady_clock::now())) {
    const EventRead read = reader->read(kEventsARead, kCancelCheck);
    if (!stream.put(read, send) || read.ended) break;
  }
  return grpc::Status::OK;
}

grpc::Status GrpcService::GetServerInfo(grpc::ServerContext*, const pb::GetServerInfoRequest*,
                                        pb::GetServerInfoResponse* response) {
  *response = server_info(facts_);
  return grpc::Status::OK;
}

// Findings from /proc about a process are for users who may inspect it; those about the machine are
// for everyone.
grpc::Status GrpcService::Diagnose(grpc::ServerContext* context, const pb::DiagnoseRequest* request,
                                   pb::DiagnoseResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  if (request->pid() < 0) return to_grpc(check_pid(request->pid()));
  absl::StatusOr<AskedProcess> process = request->pid();
  if (request->pid() > 0) {
    process = access_.process_for(GrpcAccess::caller(*context), request->pid());
  }
  if (!process.ok()) return to_grpc(process.status());
  for (const Finding& finding : service_.diagnose(*process)) {
    *response->add_findings() = to_proto(finding);
  }
  return grpc::Status::OK;
}

}  // namespace memprofd
