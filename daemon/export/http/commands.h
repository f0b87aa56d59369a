// SPDX-License-Identifier: Apache-2.0
// Requests of the page that are no plain questions: their bodies are JSON of the API's messages.
#pragma once

#include <google/protobuf/util/json_util.h>

#include <memory>
#include <string>
#include <utility>

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

// Queues of waiting queries.
struct HttpTurns {
  AnswerTurns answers, values;
};

// Adds the routes of the methods that it visits: GET for queries, POST for commands.
class MethodRoutes {
 public:
  // stop: ends what takes its time. Both references must outlive the routes.
  MethodRoutes(HttpRoutes& routes, bool commands_allowed, StopSignal& stop,
               std::shared_ptr<HttpTurns> turns)
      : routes_(routes),
        commands_allowed_(commands_allowed),
        stop_(stop),
        turns_(std::move(turns)) {}

  template <typename Request, typename Response>
  void operator()(Method<Request, Response> method) const {
    if (method.route == nullptr) return;
    if (method.role == Role::kAsk) {
      routes_[absl::StrCat("/api/v1/", method.route)] = question(std::move(method));
    } else {
      add_command(method.route, commands_allowed_, command(method), routes_);
    }
  }
  // Streams have routes of their own.
  template <typename Request, typename Message>
  void operator()(const StreamMethod<Request, Message>& /*stream*/) const {}

 private:
  // Null: none.
  AnswerTurns* turns_in(Queue queue) const {
    if (queue == Queue::kValues) return &turns_->values;
    return queue == Queue::kAnswers || queue == Queue::kTargets ? &turns_->answers : nullptr;
  }

  template <typename Request, typename Response>
  HttpHandler question(Method<Request, Response> method) const {
    return [method, turns = turns_, queue = turns_in(method.queue)](const HttpRequest& http) {
      Request request;
      const absl::Status status = fill_from_params(http.query, request);
      if (!status.ok()) return http_failure(status);
      const auto answer = [&] { return http_answer(method.answer(request, {})); };
      return queue == nullptr ? answer() : in_turn(*queue, answer);
    };
  }

  template <typename Request, typename Response>
  HttpHandler command(Method<Request, Response> method) const {
    return [method, &stop = stop_](const HttpRequest& http) {
      const auto request = parse_command<Request>(http.body);
      if (!request.ok()) return http_failure(request.status());
      const RequestedProcess process = method.process(*request);
      const auto answer = method.answer(*request, {process, [&stop] { return stop.wait({}); }});
      audit_call(method.audit, *request, process.pid, http.caller, false, answer.status(),
                 answer.ok() ? method.done(*answer) : "");
      return http_answer(answer);
    };
  }

  HttpRoutes& routes_;
  const bool commands_allowed_;
  StopSignal& stop_;
  const std::shared_ptr<HttpTurns> turns_;
};

}  // namespace memprofd
