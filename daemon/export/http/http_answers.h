// SPDX-License-Identifier: Apache-2.0
// Messages and errors as HTTP responses.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/export/clients/answer_turns.h"
#include "daemon/export/http/http_server.h"
#include "google/protobuf/message.h"

namespace memprofd {

// One line of text, with the HTTP status that corresponds to the error's code. For a snapshot whose
// pause would be too long (PauseRefusal), header fields have the seconds:
//   Memprofd-Predicted-Pause-Seconds, Memprofd-Allowed-Pause-Seconds: 0.05
//   Memprofd-Enough-Pause-Seconds: a max_pause_seconds with which it is not refused again
HttpResponse http_failure(const absl::Status& error);
HttpResponse http_json(const google::protobuf::Message& message);

template <typename Message>
HttpResponse http_answer(const absl::StatusOr<Message>& message) {
  return message.ok() ? http_json(*message) : http_failure(message.status());
}

// The result of answer(), in a turn of its own; or an error if there was no turn.
HttpResponse in_turn(AnswerTurns& turns, const std::function<HttpResponse()>& answer);

}  // namespace memprofd
