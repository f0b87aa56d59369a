// SPDX-License-Identifier: Apache-2.0
// The report of memprofctl run: one screen about each process, on stderr.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/ctl/questions.h"
#include "daemon/ctl/run_files.h"
#include "daemon/history/snapshot_source.h"
#include "daemon/run/run_target.h"

namespace memprofd::ctl {

// Words for a program that was started, or that ran already.
struct ReportWords {
  const char* lasted = "ran for ";
  const char* since = " after the start";
};

// One line about a program without a sample, with the number to be expected and the remedy;
// otherwise empty. words: RunTarget::allocated_words().
std::string no_samples_text(const ProfileSnapshot& snapshot, std::optional<double> words);
// The sites with the most of that measure; peak: at the time of the live peak.
absl::StatusOr<std::string> top_sites(Questions& questions, int pid, pb::Measure order, bool peak);
// extent: "ran for 3 s", or the number of processes. peak_name: padded to 16 columns.
std::string head_of_report(const pb::Target& target, const std::string& pid_text,
                           const std::string& extent, const char* peak_name,
                           const std::string& peak);
// pid_text: ", pid 42", or empty. allocated_words: RunTarget::allocated_words().
absl::StatusOr<std::string> report(SnapshotSource& run, Questions& questions, int pid,
                                   const std::string& pid_text,
                                   std::optional<double> allocated_words,
                                   const ReportWords& words = {});

// whose: " of worker", or empty.
std::string losses_of(const std::string& whose, const pb::Target& target);
std::string damage_of(const std::string& program, const RunTarget& run);

// Writes the files and prints losses, and the report unless it is to be quiet.
absl::Status write_results(RunTarget& run, RunFiles& files, bool quiet, const std::string& pid_text,
                           const ReportWords& words);

}  // namespace memprofd::ctl
