// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/log.h"

#include <memory>

#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace memprofd {
namespace {

// The message as the inside of a JSON or logfmt string.
class QuotedMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    for (const char c : message.payload) {
      if (c == '"' || c == '\\') out.push_back('\\');
      out.push_back(static_cast<unsigned char>(c) < 0x20 ? ' ' : c);
    }
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<QuotedMessage>();
  }
};

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

constexpr char kLogfmt[] = "ts=%Y-%m-%dT%H:%M:%S.%e%z level=%l msg=\"%*\"";
constexpr char kJson[] = R"({"ts":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","msg":"%*"})";

}  // namespace

void set_up_log(const std::string& level, const std::string& format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<QuotedMessage>('*').set_pattern(format == "json" ? kJson : kLogfmt);
  auto logger = spdlog::stderr_logger_mt("memprofd");
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

void end_log() { spdlog::shutdown(); }

bool is_logged(LogLevel level) { return spdlog::should_log(level_of(level)); }

void log_line(LogLevel level, std::string_view text) { spdlog::log(level_of(level), text); }

}  // namespace memprofd
