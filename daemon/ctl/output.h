// SPDX-License-Identifier: Apache-2.0
// Destinations of results.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/ctl/render/render_table.h"
#include "daemon/snapshot/file/new_file.h"
#include "google/protobuf/message.h"

namespace memprofd::ctl {

// Colours and width of stdout if it is a terminal; no colours if TERM or NO_COLOR forbid them.
Style stdout_style();
absl::Status print(const std::string& text);
// Writes the message in the form of the HTTP API, with a newline at the end. Without a file: to
// stdout.
absl::Status print_json(const google::protobuf::Message& message, const std::string& file = "");
// Writes to the file, or to stdout if it is empty.
absl::Status write_result(const std::string& data, const std::string& file);
// Adds to the end of the file.
absl::Status append_result(const std::string& data, const std::string& file);
// Does the same piece by piece, for large results.
class ResultStream {
 public:
  // An empty file name means stdout.
  static absl::StatusOr<ResultStream> open(const std::string& file);
  // After an error, nothing more is written and finish() returns that error.
  void write(std::string_view text);
  bool failed() const { return !status_.ok(); }
  absl::Status finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  ResultStream() = default;

  std::unique_ptr<std::FILE, Close> file_;  // null: stdout
  std::string name_;
  absl::Status status_;
};
// Like write_result(), for binary data: refuses to write to a terminal.
absl::Status write_binary(const std::string& data, const std::string& file,
                          const std::string& suggested_name);

}  // namespace memprofd::ctl
