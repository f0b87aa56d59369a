// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/value_routes.h"

#include <functional>
#include <memory>
#include <utility>

#include "daemon/export/api/audit.h"
#include "daemon/export/clients/answer_turns.h"
#include "daemon/export/http/commands.h"
#include "daemon/export/http/http_answers.h"
#include "daemon/export/http/request_params.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

HttpResponse history(ValuesService& values, AnswerTurns& turns, const HttpRequest& http) {
  pb::GetValueHistoryRequest request;
  const absl::Status status = fill_from_params(http.query, request);
  if (!status.ok()) return http_failure(status);
  request.set_with_lines(false);
  return in_turn(turns, [&] { return http_answer(values.history(request)); });
}

// answer(request, http): the response's message, or why there is none.
template <typename Request, typename Answer>
HttpHandler command(Answer answer) {
  return [answer](const HttpRequest& http) {
    const auto request = parse_command<Request>(http.body);
    return request.ok() ? http_answer(answer(*request, http)) : http_failure(request.status());
  };
}

}  // namespace

void add_value_routes(ValuesService& values, StopSignal& stop, bool allowed, HttpRoutes& routes) {
  const auto turns = std::make_shared<AnswerTurns>();
  routes["/api/v1/value_history"] = [&values, turns](const HttpRequest& http) {
    return history(values, *turns, http);
  };
  const auto add = [&](const char* name, HttpHandler handler) {
    add_command(name, allowed, std::move(handler), routes);
  };
  add("value_lines",
      command<pb::GetValueHistoryRequest>(
          [&values](pb::GetValueHistoryRequest request, const HttpRequest& /*http*/) {
            request.set_with_lines(true);
            return values.history(request);
          }));
  add("values",
      command<pb::ListValuesRequest>([&values, &stop](const pb::ListValuesRequest& request,
                                                      const HttpRequest& http) {
        auto answer = values.list_values(request, request.pid(), [&stop] { return stop.wait({}); });
        if (request.with_contents()) {
          audit(request.pid(), "contents of values", http.caller, answer.status());
        }
        return answer;
      }));
  add("adjust", command<pb::AdjustRequest>(
                    [&values](const pb::AdjustRequest& request, const HttpRequest& http) {
                      auto answer = values.adjust(request, request.pid());
                      audit(request.pid(), text_of(request), http.caller, answer.status());
                      return answer;
                    }));
  add("keep_values", command<pb::KeepValuesRequest>(
                         [&values](const pb::KeepValuesRequest& request, const HttpRequest& http) {
                           auto answer = values.keep(request, request.pid());
                           audit(request.pid(), text_of(request), http.caller, answer.status());
                           return answer;
                         }));
  add("resume", command<pb::ResumeRequest>(
                    [&values](const pb::ResumeRequest& request, const HttpRequest& http) {
                      auto answer = values.resume(request, request.pid());
                      audit(request.pid(), "resume", http.caller, answer.status());
                      return answer;
                    }));
}

}  // namespace memprofd
