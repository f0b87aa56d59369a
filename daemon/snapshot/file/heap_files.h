// SPDX-License-Identifier: Apache-2.0
// The directory in which memprofd keeps snapshots: auto-NAME-PID-TIME.heap. Each file is readable
// by its owner only, and gets its name when it is complete.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/model/control.h"
#include "daemon/snapshot/file/new_file.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

struct HeapFilesOptions {
  std::string directory;
  // Maximum number of complete files. The oldest files of the program name with the most files are
  // removed.
  std::size_t keep = 10;
  // Limit for all files. A program with fewer bytes replaces files of the program with the most; no
  // other file is replaced.
  std::uint64_t max_bytes = 10ull << 30;
};

// A stored snapshot.
struct KeptHeap {
  std::string name;  // name of the file
  std::uint64_t file_bytes = 0;
  ImageInfo info;
};

// Thread-safe: all state is in the directory. Without a directory nothing is stored.
class HeapFiles {
 public:
  // A list reads at most this number of the latest files.
  static constexpr std::size_t kMaxListed = 1000;

  explicit HeapFiles(HeapFilesOptions options) : options_(std::move(options)) {}

  // As make_writable_directory().
  absl::Status make_directory() const;

  // Removes unfinished files of a killed memprofd.
  void remove_left_parts() const;

  const std::string& directory() const { return options_.directory; }
  // Complete snapshots, the latest first. Files that are not heap files are omitted.
  std::vector<KeptHeap> list() const;
  // The path of a file in list(), by its name there. kNotFound: there is none; kFailedPrecondition:
  // no snapshots are stored.
  absl::StatusOr<std::string> path_of(std::string_view name) const;

  // A file that is being written.
  class File {
   public:
    const std::string& path() const { return path_; }
    // kResourceExhausted: the directory would exceed its limit.
    absl::Status write(std::string_view bytes);
    // Completes the file, and removes the oldest files beyond the number to keep.
    absl::Status finish();
    // Lets take() write the file while waits() returns true, then completes it.
    absl::Status fill(const std::function<bool()>& waits,
                      const std::function<absl::Status(const HeapClient&)>& take);

   private:
    friend class HeapFiles;
    File(const HeapFiles& files, std::string path, NewFile file, std::uint64_t room)
        : files_(files), path_(std::move(path)), file_(std::move(file)), room_(room) {}
    bool has_room(std::uint64_t bytes);

    const HeapFiles& files_;
    std::string path_;
    NewFile file_;
    std::uint64_t room_;
    std::uint64_t written_ = 0;
    std::uint64_t unchecked_ = 0;  // bytes written since room_ was determined
  };
  // program: its name, of which only letters, digits and hyphens are used. kFailedPrecondition: no
  // snapshots are stored.
  absl::StatusOr<File> create(std::string_view program, int pid, std::time_t now) const;

 private:
  absl::Status none_kept() const;
  absl::Status full() const;
  void remove_oldest() const;
  // Bytes that are available for the file at that path, which has `has` bytes and needs `needs`
  // more; other files may be removed for it.
  std::uint64_t make_room(const std::string& path, std::uint64_t has, std::uint64_t needs) const;

  const HeapFilesOptions options_;
};

}  // namespace memprofd
