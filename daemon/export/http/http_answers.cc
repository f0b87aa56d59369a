// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/http_answers.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/message_json.h"
#include "daemon/model/pause_refusal.h"

namespace memprofd {
namespace {

int http_status(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kAborted:
      return 410;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

}  // namespace

HttpResponse http_failure(const absl::Status& error) {
  HttpResponse response{http_status(error.code()), "text/plain; charset=utf-8",
                        absl::StrCat(std::string(error.message()), "\n")};
  if (const auto refusal = pause_refusal_of(error)) {
    response.fields = {
        {"Memprofd-Predicted-Pause-Seconds", absl::StrCat(refusal->predicted_seconds)},
        {"Memprofd-Allowed-Pause-Seconds", absl::StrCat(refusal->allowed_seconds)},
        {"Memprofd-Enough-Pause-Seconds", absl::StrCat(refusal->enough_seconds())}};
  }
  return response;
}

HttpResponse http_json(const google::protobuf::Message& message) {
  absl::StatusOr<std::string> text = message_json(message, false);
  if (!text.ok()) return http_failure(text.status());
  return {200, "application/json", *std::move(text)};
}

HttpResponse in_turn(AnswerTurns& turns, const std::function<HttpResponse()>& answer) {
  const auto turn = turns.take();
  return turn.ok() ? answer() : http_failure(turn.status());
}

}  // namespace memprofd
