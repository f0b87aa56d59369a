// SPDX-License-Identifier: Apache-2.0
// A file of records; a damaged record is rejected as a whole.
//
//   head     "memprofd" and the version of what the records say, 4 bytes
//   record   length, 4 bytes; CRC-32 of length and bytes, 4 bytes; bytes
//   record   ...
//
// Numbers are little endian. A killed writer leaves a torn record at the end, and a disk may change
// any byte: a reader gets the state of some earlier moment.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/util/fd.h"

namespace memprofd {

inline constexpr std::uint32_t kRecordLogVersion = 1;
inline constexpr std::uint32_t kMaxRecordBytes = 64u << 20;

class RecordLog {
 public:
  // A new file; one of that name is cleared.
  static absl::StatusOr<RecordLog> create(const std::string& path);

  // All of it, or nothing: after an error the file is as it was, or every further one fails.
  absl::Status append(std::string_view record);
  std::uint64_t bytes() const { return bytes_; }

 private:
  RecordLog(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::Status write(std::string_view bytes);

  std::string path_;
  UniqueFd fd_;
  std::uint64_t bytes_ = 0;
  bool torn_ = false;
};

// Calls use(record) for each whole record from the beginning on, until it answers false.
// kFailedPrecondition: the file is none, or of another version.
absl::Status read_records(const std::string& path,
                          const std::function<bool(std::string_view)>& use);

}  // namespace memprofd
