// SPDX-License-Identifier: Apache-2.0
// Where calls of one gRPC server wait.
#pragma once

#include <memory>
#include <utility>

#include "daemon/export/api/server_stats.h"
#include "daemon/export/clients/answer_turns.h"
#include "daemon/export/grpc/stream_slots.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

// Places and turns that the services of a server share. Each call in them has a thread.
struct GrpcQueues {
  GrpcQueues(std::shared_ptr<ServerStats> stats, StreamSlots::Clock::duration patience)
      : streams(std::move(stats), patience) {}

  static constexpr AnswerLimits kAnswers{.waiting = 16};
  // Answers that are made or awaited at the same time, without streams.
  static constexpr int kMaxAnswers = static_cast<int>(kAnswers.at_once + kAnswers.waiting);

  StreamSlots streams;
  AnswerTurns answers{kAnswers};
  AnswerTurns watched{{.at_once = 2, .waiting = StreamSlots::kSlots}};
  StopSignal stop;  // ends all streams soon
};

}  // namespace memprofd
