// SPDX-License-Identifier: Apache-2.0
// A file that is there under its name only when it is complete, and for its owner alone.
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
  // Under a name of its own beside the other, where no link leads. What is there under that name
  // stays until finish(), unless it is no regular file, which is refused.
  static absl::StatusOr<NewFile> create(std::string path);
  NewFile(NewFile&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, "")),
        file_(std::move(other.file_)) {}
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();  // removes an unfinished file

  absl::Status write(std::string_view bytes);
  absl::Status finish();
  // Removes a file under a name of its own (".part") that no process writes any more.
  static void remove_left(const std::string& path);

 private:
  NewFile(std::string path, std::string temporary, UniqueFd file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

  std::string path_;
  std::string temporary_;  // empty: finished
  UniqueFd file_;
};

// A file for a moment, for its owner alone: it has no name and is gone however this process ends.
class NamelessFile {
 public:
  // In $TMPDIR, else in /tmp.
  static absl::StatusOr<NamelessFile> create();
  absl::Status write(std::string_view bytes) const;
  // For this process, while the object lives.
  std::string path() const;

 private:
  NamelessFile(std::string folder, UniqueFd file)
      : folder_(std::move(folder)), file_(std::move(file)) {}

  std::string folder_;  // of messages
  UniqueFd file_;
};

}  // namespace memprofd
