// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/render/render_json.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

// True if the terminal supports colours and bold letters, and they are wanted (no-color.org).
bool may_paint() {
  const char* terminal = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  const bool understands =
      terminal != nullptr && *terminal != '\0' && std::strcmp(terminal, "dumb") != 0;
  return understands && (no_color == nullptr || *no_color == '\0');
}

absl::Status write_file(const std::string& data, const std::string& file, const char* mode) {
  std::FILE* out = std::fopen(file.c_str(), mode);
  bool written = out != nullptr && std::fwrite(data.data(), 1, data.size(), out) == data.size();
  if (out != nullptr) written = std::fclose(out) == 0 && written;
  if (written) return absl::OkStatus();
  return cannot_write(file);
}

}  // namespace

Style stdout_style() {
  if (::isatty(STDOUT_FILENO) == 0) return {};
  winsize size{};
  ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  return {may_paint(), size.ws_col};
}

absl::Status print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return cannot_write("to stdout");
  }
  return absl::OkStatus();
}

absl::Status print_json(const google::protobuf::Message& message, const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, answer_json(message));
  return write_result(text, file);
}

absl::Status write_result(const std::string& data, const std::string& file) {
  return file.empty() ? print(data) : write_file(data, file, "wb");
}

absl::Status append_result(const std::string& data, const std::string& file) {
  return write_file(data, file, "ab");
}

absl::StatusOr<ResultStream> ResultStream::open(const std::string& file) {
  ResultStream stream;
  stream.name_ = file.empty() ? "to stdout" : file;
  if (!file.empty()) stream.file_.reset(std::fopen(file.c_str(), "wb"));
  if (!file.empty() && !stream.file_) return cannot_write(file);
  return stream;
}

void ResultStream::write(std::string_view text) {
  std::FILE* out = file_ ? file_.get() : stdout;
  if (failed() || std::fwrite(text.data(), 1, text.size(), out) == text.size()) return;
  status_ = cannot_write(name_);
}

absl::Status ResultStream::finish() {
  if (failed()) return status_;
  if (std::fflush(file_ ? file_.get() : stdout) != 0) return cannot_write(name_);
  return absl::OkStatus();
}

absl::Status write_binary(const std::string& data, const std::string& file,
                          const std::string& suggested_name) {
  if (file.empty() && ::isatty(STDOUT_FILENO) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("this format cannot be written to a terminal; add --out ", suggested_name));
  }
  return write_result(data, file);
}

}  // namespace memprofd::ctl
