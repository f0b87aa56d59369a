// SPDX-License-Identifier: Apache-2.0
// A file of records, in which a damaged record is rejected as a whole.
//
//   head     "memprofd" and the version of the records' contents, 4 bytes
//   record   length, 4 bytes; CRC-32 of length and bytes, 4 bytes; bytes
//   record   ...
//
// Numbers are little endian. A killed writer leaves a torn record at the end, and a disk may
// corrupt any byte: a reader then gets the state of an earlier moment.
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
  // Creates a file, or clears an existing one of that name.
  static absl::StatusOr<RecordLog> create(const std::string& path);

  // Appends the whole record or nothing. After an error the file is unchanged, or every further
  // append fails.
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

// Calls use(record) for each intact record in order, until it returns false. kFailedPrecondition:
// the file is not a record log, or has another version.
absl::Status read_records(const std::string& path,
                          const std::function<bool(std::string_view)>& use);

}  // namespace memprofd
