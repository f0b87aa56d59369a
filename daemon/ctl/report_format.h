// SPDX-License-Identifier: Apache-2.0
// Formats of `memprofctl report -o`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/export/formats/profile_formats.h"

namespace memprofd::ctl {

inline constexpr char kTable[] = "table", kJson[] = "json", kDot[] = "dot";

// Names of all formats, the default first.
std::vector<std::string> report_formats();
// The row of a profile format; null for tables and JSON, which memprofctl renders itself.
// kInvalidArgument for any other word.
absl::StatusOr<const ProfileFormatRow*> report_format(const std::string& word);

}  // namespace memprofd::ctl
