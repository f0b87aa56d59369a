// SPDX-License-Identifier: Apache-2.0
// Finds the executables that are OCaml programs and can be profiled. Each file is examined once, by
// a thread of its own: a file system that does not answer delays no one else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "daemon/control/inspection.h"
#include "daemon/model/discovery.h"
#include "daemon/util/file_id.h"

namespace memprofd {

struct FileVerdict {
  bool is_ocaml = false;  // otherwise the other fields are meaningless
  Discovery outcome = Discovery::kNoRule;
  std::string reason;  // one line
};

// The outcome for a program that was refused.
Discovery discovery_of(const absl::Status& status);

// Examines the executable behind path, which messages call exe. nullopt: it cannot be read now, or
// is not the intended file.
std::optional<FileVerdict> examine_program(const std::string& path, const std::string& exe,
                                           FileId meant);

// Not thread-safe.
class ProgramFiles {
 public:
  using Examine =
      std::function<std::optional<FileVerdict>(const std::string&, const std::string&, FileId)>;

  static constexpr std::size_t kMaxFiles = 4096;
  static constexpr std::size_t kMaxSlow = 4;  // slow examinations at the same time
  static constexpr std::size_t kMaxNew = 64;  // new files per scan

  explicit ProgramFiles(Examine examine = examine_program) : examine_(std::move(examine)) {}

  // The verdict about the file; null if there is none, or none yet.
  const FileVerdict* verdict(const std::string& path, const std::string& exe, FileId file);
  // Forgets files that no process runs any more, if there are many. Returns the number of files
  // that were requested in this scan and could not be examined.
  std::uint64_t end_scan();

 private:
  struct Entry {
    std::optional<FileVerdict> verdict;
    std::optional<Inspection<std::optional<FileVerdict>>> inspection;  // runs
    bool is_used = false;                                              // requested in this scan
  };

  void take_result(Entry& entry);

  const Examine examine_;
  std::map<FileId, Entry> entries_;
  std::size_t slow_ = 0, new_ = 0;
  std::uint64_t unread_ = 0;
};

}  // namespace memprofd
