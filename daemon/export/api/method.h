// SPDX-License-Identifier: Apache-2.0
// A call of the API: who may make it, its queue, its line in the audit log, and the function that
// answers it. The servers handle all calls alike: a row in a list of methods is all that they need.
//
// The lists (api_methods.h, heap_methods.h) call visit() with each Method and each StreamMethod of
// a service of gRPC. gRPC's server serves those with a name in gRPC; HTTP's server serves Methods
// with a route.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/api/request_checks.h"
#include "daemon/export/clients/answer_turns.h"
#include "daemon/model/requested_process.h"

namespace memprofd {

// Who may make a call.
enum class Role : std::uint8_t {
  kAsk,             // every client
  kInspectProgram,  // as kControlProgram, and every client if the request's pid is 0
  kControlProgram,  // clients that may control the program of the request's pid
  kControlOwn,      // clients that may control any program: the function checks whose it is
  kControlAll,      // clients that may control all programs
};

// Where a call waits if many are made. Commands over HTTP wait nowhere.
enum class Queue : std::uint8_t {
  kNone,     // nowhere
  kCalls,    // gRPC: as one of GrpcAccess::kMaxCalls; HTTP: nowhere
  kAnswers,  // for a turn; for answers that take a processor and memory for a while
  kTargets,  // gRPC: as kCalls; HTTP: as kAnswers
  kValues,   // gRPC: as kCalls; HTTP: for a turn of published values
  kWatched,  // gRPC: for a turn of repeated answers
};

// The line of the audit log (audit.h) about a call.
struct AuditLine {
  std::string words;           // the request: "adjust 'queue'"
  bool only_refusals = false;  // log the call only if the client lacks the right
};

// Empty: the calls are not logged.
template <typename Request>
using AuditWords = std::function<AuditLine(const Request&)>;

// The same words for each request.
inline auto logged_as(const char* words) {
  return [words](const auto& /*request*/) { return AuditLine{words}; };
}

// refused: the client lacked the right. done: remarks about a completed call.
template <typename Request>
void audit_call(const AuditWords<Request>& words, const Request& request, int pid,
                std::string_view who, bool refused, const absl::Status& outcome,
                std::string_view done = "") {
  if (!words) return;
  const AuditLine line = words(request);
  if (line.only_refusals && !refused && !absl::IsPermissionDenied(outcome)) return;
  audit(pid, line.words, who, outcome, done);
}

struct MethodCall {
  RequestedProcess process;     // of the request, and the user whose it has to be
  std::function<bool()> waits;  // whether the client still waits for the answer
};

// A call that is answered with one message.
template <typename Request, typename Response>
struct Method {
  const char* rpc;    // name in gRPC: "FindWaste"; null: only over HTTP
  const char* route;  // over HTTP: POST /api/v1/ROUTE with the request as JSON, for kAsk GET with
                      // its fields as parameters; null: only in gRPC
  Role role;
  Queue queue;
  AuditWords<Request> audit;
  std::function<absl::StatusOr<Response>(const Request&, const MethodCall&)> answer;
  // Remarks about a completed call in the log.
  std::function<std::string(const Response&)> done = [](const Response&) { return ""; };
  std::function<RequestedProcess(const Request&)> process = &process_in<Request>;
  // The role over gRPC where it depends on the request.
  Role (*role_of)(const Request&) = nullptr;
};

// Not thread-safe, except that send() may be called from any one thread at a time.
template <typename Message>
struct StreamCall {
  RequestedProcess process;                  // as MethodCall's
  std::function<bool(const Message&)> send;  // false: the client has gone
  std::function<bool()> waits;               // whether the client is still there
  // Waits until then; false: the stream should end.
  std::function<bool(std::chrono::steady_clock::time_point due)> wait;
  // A turn for one answer in the queue of the stream.
  std::function<absl::StatusOr<AnswerTurns::Turn>()> turn;
  // Logs the call as done, with remarks. Without it, the end of the stream is logged.
  std::function<void(std::string_view remarks)> done;
};

// A call that is answered with several messages. Each occupies a place among the streams.
template <typename Request, typename Message>
struct StreamMethod {
  const char* rpc;
  Role role;
  Queue queue;  // of single answers in the stream
  AuditWords<Request> audit;
  std::function<absl::Status(const Request&, const StreamCall<Message>&)> run;
};

}  // namespace memprofd
