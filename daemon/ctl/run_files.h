// SPDX-License-Identifier: Apache-2.0
// Output files of memprofctl run, besides the report.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/ctl/questions.h"
#include "daemon/export/formats/profile_formats.h"
#include "daemon/run/run_target.h"
#include "daemon/snapshot/file/new_file.h"

namespace memprofd::ctl {

class RunTrace;

// Each file gets its name when it is complete.
class RunFiles {
 public:
  // Refuses before the program starts if an output could not be written after its end.
  // kInvalidArgument: no format has the ending of that name. trace_version:
  // RecorderOptions::version.
  static absl::StatusOr<RunFiles> open(const std::vector<std::string>& names, int trace_version);
  RunFiles(RunFiles&& other) noexcept;
  ~RunFiles();

  // Starts traces that have not begun.
  absl::Status begin(RunTarget& target);
  // Call after the target's end. Writes all files that can be written; returns the first error.
  absl::Status finish(Questions& questions, int pid);

 private:
  struct Profile {
    NewFile file;
    const ProfileFormatRow* format;  // null: JSON
  };

  RunFiles();

  std::vector<std::unique_ptr<RunTrace>> traces_;
  std::vector<Profile> profiles_;
};

// ".ctf, .folded, ...": the endings of names, each of which selects a format.
std::string run_file_endings();
// True if that name is of a trace, which describes one process.
bool is_trace_file(const std::string& name);
// "a.html" and "worker" make "a.worker.html".
std::string labelled(const std::string& file, const std::string& label);

}  // namespace memprofd::ctl
