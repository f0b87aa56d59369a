// SPDX-License-Identifier: Apache-2.0
// A file that gets its name only when it is complete, and that only its owner may read.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/util/fd.h"

namespace memprofd {

// The error of a failed write, from errno.
absl::Status cannot_write(const std::string& what);

class NewFile {
 public:
  // Creates a temporary file beside the target, under a name to which no link leads. An existing
  // file stays until finish(); one that is not a regular file is refused.
  static absl::StatusOr<NewFile> create(std::string path);
  NewFile(NewFile&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, "")),
        file_(std::move(other.file_)) {}
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();  // removes an unfinished file

  absl::Status write(std::string_view bytes);
  absl::Status finish();
  // Removes a temporary file (".part") that no process writes any more.
  static void remove_left(const std::string& path);

 private:
  NewFile(std::string path, std::string temporary, UniqueFd file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

  std::string path_;
  std::string temporary_;  // empty: finished
  UniqueFd file_;
};

// A temporary file for its owner only. It has no name, and disappears however this process ends.
class NamelessFile {
 public:
  // Creates it in $TMPDIR, otherwise in /tmp.
  static absl::StatusOr<NamelessFile> create();
  absl::Status write(std::string_view bytes) const;
  // A path for this process, valid while the object lives.
  std::string path() const;

 private:
  NamelessFile(std::string folder, UniqueFd file)
      : folder_(std::move(folder)), file_(std::move(file)) {}

  std::string folder_;  // folder, for messages
  UniqueFd file_;
};

}  // namespace memprofd
