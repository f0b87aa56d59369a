// SPDX-License-Identifier: Apache-2.0
// Requests of the page that are no plain questions: their bodies are JSON of the API's messages.
#pragma once

#include <google/protobuf/util/json_util.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/api/method.h"
#include "daemon/export/clients/answer_turns.h"
#include "daemon/export/http/http_answers.h"
#include "daemon/export/http/http_server.h"
#include "daemon/export/http/request_params.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

// Adds POST /api/v1/NAME. A request is refused unless allowed, from a page of another site
// (same_site.h), without a Content-Type of application/json, and from a client without the right to
// control, which is audited.
void add_command(const char* name, bool allowed, HttpHandler handler, HttpRoutes& routes);

template <typename Request>
absl::StatusOr<Request> parse_command(const std::string& body) {
  Request request;
  const auto status = google::protobuf::util::JsonStringToMessage(body, &request);
  if (status.ok()) return request;
  const std::string lines(status.message());  // the others show the place
  return absl::InvalidArgumentError(absl::StrCat("the body is not JSON of ",
                                                 Request::descriptor()->name(), ": ",
                                                 lines.substr(0, lines.find('\n'))));
}

// Adds the route of a method: GET for everybody's questions, else a command. stop: ends what takes
// its time; it must outlive the route. turns, if any: where questions wait.
template <typename Request, typename Response>
void add_method(Method<Request, Response> method, bool allowed, StopSignal& stop,
                const std::shared_ptr<AnswerTurns>& turns, HttpRoutes& routes) {
  if (method.route == nullptr) return;
  if (method.role == Role::kAsk) {
    routes[absl::StrCat("/api/v1/", method.route)] = [method, turns](const HttpRequest& http) {
      Request request;
      const absl::Status status = fill_from_params(http.query, request);
      if (!status.ok()) return http_failure(status);
      const auto answer = [&] { return http_answer(method.answer(request, {})); };
      return turns == nullptr ? answer() : in_turn(*turns, answer);
    };
    return;
  }
  const auto handle = [method, &stop](const HttpRequest& http) {
    const auto request = parse_command<Request>(http.body);
    if (!request.ok()) return http_failure(request.status());
    const AskedProcess process = method.process(*request);
    const auto answer = method.answer(*request, {process, [&stop] { return stop.wait({}); }});
    audit_call(method.audit, *request, process.pid, http.caller, false, answer.status(),
               answer.ok() ? method.done(*answer) : "");
    return http_answer(answer);
  };
  add_command(method.route, allowed, handle, routes);
}

}  // namespace memprofd
