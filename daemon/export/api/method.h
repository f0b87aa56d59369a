// SPDX-License-Identifier: Apache-2.0
// A call of the API that gRPC and HTTP offer alike: who may make it, its words in the log, and the
// function that answers it. Adding one to a list of methods is all that both need.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "daemon/model/asked_process.h"

namespace memprofd {

// Who may make a call.
enum class Role : std::uint8_t {
  kAsk,             // every client
  kControlProgram,  // clients that may control the program of the request's pid
  kControlAll,      // clients that may control all programs
};

struct MethodCall {
  AskedProcess process = 0;     // of the request; only for kControlProgram
  std::function<bool()> waits;  // whether the client still waits for the answer
};

template <typename Request, typename Response>
struct Method {
  const char* rpc;    // name in gRPC: "FindWaste"
  const char* route;  // over HTTP: POST /api/v1/ROUTE with the request as JSON; for kAsk GET
  Role role;
  const char* audit;  // its words in the log; null: not logged
  std::function<absl::StatusOr<Response>(const Request&, const MethodCall&)> answer;
};

// 0: the request is about no process.
template <typename Request>
int pid_of(const Request& request) {
  if constexpr (requires { request.pid(); }) {
    return request.pid();
  } else {
    return 0;
  }
}

}  // namespace memprofd
