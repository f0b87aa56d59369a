// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/version.h"

#include "absl/strings/str_cat.h"
#include "version_strings.h"

namespace memprofd {

ProgramVersion program_version() { return {kVersionString, kRevisionString}; }

std::string version_text(const ProgramVersion& version) {
  if (version.revision.empty()) return version.version;
  return absl::StrCat(version.version, " (", version.revision, ")");
}

}  // namespace memprofd
