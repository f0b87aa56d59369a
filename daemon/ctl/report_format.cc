// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/report_format.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace memprofd::ctl {

std::vector<std::string> report_formats() {
  std::vector<std::string> words{kTable, kJson};
  for (const ProfileFormatRow& row : profile_formats()) {
    if (*row.label != '\0') words.emplace_back(row.word);
  }
  return words;
}

absl::StatusOr<const ProfileFormatRow*> report_format(const std::string& word) {
  const ProfileFormatRow* row = find_profile_format(word);
  if (row != nullptr || word == kTable || word == kJson) return row;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown format ", word, ": use ", absl::StrJoin(report_formats(), ", ")));
}

}  // namespace memprofd::ctl
