// SPDX-License-Identifier: Apache-2.0
// Requests an action that the program has registered (Memprof_values.on_request): words in its
// registry, which the program reads at a moment of its own (memprof_values_abi.h).
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/discover/memory_reader.h"

namespace memprofd {

// Maximum timeout of a request.
inline constexpr std::chrono::seconds kMaxRequestTimeout{60};

struct PublishedRequest {
  std::string name;
  std::string argument;
  std::chrono::nanoseconds timeout{};
};

struct RequestAnswer {
  std::string text;
  bool is_cut = false;  // it is longer than MEMPROF_REQUEST_TEXT
  std::chrono::nanoseconds took{};
};

// address: of struct memprof_values; wanted: returns true while a client waits; otherwise the
// request is withdrawn. Errors in one line:
//   kNotFound           the program has no such name
//   kInvalidArgument    the argument is too long
//   kDeadlineExceeded   the timeout has expired
//   kFailedPrecondition the function has raised an exception, or the program takes no requests
//   kResourceExhausted  another request of that name waits for its answer, or is still running
//   kCancelled          no client waits any more
// Otherwise the errors of read_publication().
absl::StatusOr<RequestAnswer> ask_report(const WritableMemory& memory, std::uint64_t address,
                                         const PublishedRequest& request,
                                         const std::function<bool()>& wanted);

}  // namespace memprofd
