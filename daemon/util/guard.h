// SPDX-License-Identifier: Apache-2.0
// Keeps exceptions of the standard library (no memory, no thread, a file system's error) from
// ending memprofd where no code expects them: request handlers and turns of threads run in a guard.
// Work that throws is abandoned and counted; a log line reports it once a minute.
#pragma once

#include <cstdint>
#include <exception>
#include <string_view>

namespace memprofd {

// Number of exceptions caught in this process. Any thread may call it.
std::uint64_t unexpected_errors();
// Counts an exception. doing is part of the message: "to write state".
void note_unexpected_error(std::string_view doing, const std::exception& error);

// Returns true if work() completed.
template <typename Work>
bool guarded(std::string_view doing, Work&& work) {
  try {
    work();
    return true;
  } catch (const std::exception& error) {
    note_unexpected_error(doing, error);
    return false;
  }
}

}  // namespace memprofd
