// SPDX-License-Identifier: Apache-2.0
// Version of this memprofd. The build generates both texts (deploy/version.sh).
#pragma once

#include <string>

namespace memprofd {

struct ProgramVersion {
  std::string version;        // top version in CHANGELOG.md: "0.2.0"
  std::string revision = {};  // output of git describe; empty if built without git
};

ProgramVersion program_version();

// API version in gRPC, HTTP and JSON: the last part of the proto's package.
inline constexpr char kApiVersion[] = "v1";

// Version for display: "0.2.0 (v0.2.0-3-g0123456789ab)".
std::string version_text(const ProgramVersion& version);

}  // namespace memprofd
