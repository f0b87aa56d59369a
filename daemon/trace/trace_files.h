// SPDX-License-Identifier: Apache-2.0
// The files of one recording: STEM.ctf, STEM.1.ctf, STEM.2.ctf and so on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "daemon/trace/recording.h"
#include "daemon/util/fd.h"

namespace memprofd {

// Default limit for the size of all traces in a directory.
constexpr std::uint64_t kUsualTraceBytes = 10ull << 30;

// Creates each file here with mode 0600. An existing file is an error; symbolic links are not
// followed.
class TraceFiles : public TraceOutput {
 public:
  // directory is an absolute path, in which traces of any writer may use max_bytes; it is checked
  // every kQuotaStep. stem is the beginning of file names. max_files are kept, the oldest are
  // removed; 0: all.
  TraceFiles(std::string directory, std::string stem, std::size_t max_files,
             std::uint64_t max_bytes);
  static constexpr std::uint64_t kQuotaStep = 1u << 20;

  absl::Status begin_file() override;
  // After a failure, the file ends with the last complete packet.
  absl::Status write(std::span<const std::byte> packet) override;

  // Absolute paths of the existing files, oldest first.
  const std::deque<std::string>& paths() const { return paths_; }
  // Removes all files, for a trace that did not begin.
  void remove();

 private:
  absl::Status error(int number, const std::string& action) const;
  void remove_oldest();

  const std::string directory_;
  const std::string stem_;
  const std::size_t max_files_;
  const std::uint64_t max_bytes_;
  UniqueFd file_;
  std::uint64_t size_ = 0;     // of the current file
  std::uint64_t checked_ = 0;  // size_ at the last check of the directory
  std::size_t begun_ = 0;      // files so far
  std::deque<std::string> paths_;
};

// As make_writable_directory().
absl::Status make_trace_directory(const std::string& directory);
// kResourceExhausted: the directory's *.ctf use max_bytes or more.
absl::Status check_trace_room(const std::string& directory, std::uint64_t max_bytes);

}  // namespace memprofd
