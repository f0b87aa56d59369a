// SPDX-License-Identifier: Apache-2.0
// Gives messages about a program the prefix "pid 4242: " or "pid 4242 has ...", exactly once,
// however many callers pass them on.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/util/refusal.h"
#include "fmt/format.h"

namespace memprofd {

// Length of a leading "pid 4242"; 0 if the text does not start with it.
inline std::size_t pid_length(int pid, std::string_view text) {
  const std::string begin = fmt::format("pid {}", pid);
  const bool found = text.starts_with(begin) && text.size() > begin.size() &&
                     (text[begin.size()] == ' ' || text[begin.size()] == ':');
  return found ? begin.size() : 0;
}

// Adds the prefix "pid 4242: " unless the text already names the pid.
inline std::string about_pid(int pid, std::string_view text) {
  return pid_length(pid, text) != 0 ? std::string(text) : fmt::format("pid {}: {}", pid, text);
}

inline absl::Status about_pid(int pid, const absl::Status& status) {
  if (status.ok()) return status;
  return reworded(status, about_pid(pid, std::string(status.message())));
}

// Removes the prefix, for a line that already names the process.
inline std::string without_pid(int pid, std::string_view text) {
  if (const std::size_t length = pid_length(pid, text); length != 0) {
    text.remove_prefix(length);
    text.remove_prefix(text.starts_with(": ") ? 2 : 1);
  }
  return std::string(text);
}

}  // namespace memprofd
