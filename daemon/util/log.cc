// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "daemon/util/json_text.h"
#include "daemon/util/utf8.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace memprofd {
namespace {

// The digits in "pid 4242: ...", with which messages about a program begin; empty if there are
// none.
std::string_view pid_of(std::string_view message) {
  constexpr std::string_view kBegin = "pid ";
  if (!message.starts_with(kBegin)) return {};
  message.remove_prefix(kBegin.size());
  std::size_t digits = 0;
  while (digits < message.size() && std::isdigit(static_cast<unsigned char>(message[digits])) != 0)
    ++digits;
  return digits < message.size() && message[digits] == ':' ? message.substr(0, digits)
                                                           : std::string_view();
}

void append(std::string_view text, spdlog::memory_buf_t& out) {
  out.append(text.data(), text.data() + text.size());
}

// The part after the level: the pid as a field of its own, and the message, quoted as in JSON.
class Fields : public spdlog::custom_flag_formatter {
 public:
  explicit Fields(bool json) : json_(json) {}
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = printable({message.payload.data(), message.payload.size()});
    if (const std::string_view pid = pid_of(text); !pid.empty()) {
      append(json_ ? "\"pid\":" : "pid=", out);
      append(pid, out);
      append(json_ ? "," : " ", out);
    }
    append(json_ ? "\"msg\":" : "msg=", out);
    append(json_string(text), out);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<Fields>(json_);
  }

 private:
  const bool json_;
};

// "<4>", the priority, which journald removes from the line (sd-daemon(3)).
class Priority : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    switch (message.level) {
      case spdlog::level::critical:
      case spdlog::level::err:
        return append("<3>", out);
      case spdlog::level::warn:
        return append("<4>", out);
      case spdlog::level::info:
        return append("<6>", out);
      default:
        return append("<7>", out);
    }
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<Priority>();
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

constexpr char kLogfmt[] = "ts=%Y-%m-%dT%H:%M:%S.%e%z level=%l %*";
constexpr char kJson[] = R"({"ts":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%*})";

// $JOURNAL_STREAM has the device and inode of the stream to the journal that systemd opened
// (systemd.exec(5)). Child processes inherit the variable but may have another stderr.
bool is_journal(int descriptor) {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  return stream != nullptr && ::fstat(descriptor, &status) == 0 &&
         fmt::format("{}:{}", status.st_dev, status.st_ino) == stream;
}

}  // namespace

void set_up_log(const std::string& level, const std::string& format) {
  const bool json = format == "json";
  const bool journal = is_journal(STDERR_FILENO);
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<Fields>('*', json).add_flag<Priority>('&').set_pattern(
      std::string(journal ? "%&" : "") + (json ? kJson : kLogfmt));
  auto logger = spdlog::stderr_logger_mt("memprofd");
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

void end_log() { spdlog::default_logger_raw()->flush(); }

bool is_logged(LogLevel level) { return spdlog::should_log(level_of(level)); }

void log_line(LogLevel level, std::string_view text) { spdlog::log(level_of(level), text); }

}  // namespace memprofd
