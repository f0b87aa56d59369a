// SPDX-License-Identifier: Apache-2.0
// Creates threads when the limit (TasksMax=) may have been reached. std::thread and std::async
// would throw and thereby end memprofd.
#pragma once

#include <functional>
#include <future>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memprofd {

// kResourceExhausted with cause and remedy. error: result of pthread_create(). purpose: "to record
// a trace".
absl::Status no_thread(int error, std::string_view purpose);

template <typename Work>
absl::StatusOr<std::thread> start_thread(std::string_view purpose, Work&& work) {
  try {
    return std::thread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    return no_thread(error.code().value(), purpose);
  }
}

// The future's destructor waits.
template <typename Result>
absl::StatusOr<std::future<Result>> start_async(std::string_view purpose,
                                                std::function<Result()> work) {
  try {
    return std::async(std::launch::async, std::move(work));
  } catch (const std::system_error& error) {
    return no_thread(error.code().value(), purpose);
  }
}

// Returns an error if that many more threads cannot be created now. For callers of a library that
// would end the process in that case.
absl::Status check_free_threads(int number, std::string_view purpose);

}  // namespace memprofd
