// SPDX-License-Identifier: Apache-2.0
// Writes log lines to stderr, one event per line. Any thread may log. Only log.cc includes the
// logging library, because its header would be the slowest to compile in every other file.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"

namespace memprofd {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// level: debug, info, warn or error. format: logfmt or json.
void set_up_log(const std::string& level, const std::string& format);
// Writes pending lines. For a process that exits without destructors while its threads still log.
void end_log();

bool is_logged(LogLevel level);
// Logs a text verbatim.
void log_line(LogLevel level, std::string_view text);

// These take a format string and values like fmt::format.
template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (!is_logged(LogLevel::kDebug)) return;
  log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace memprofd
