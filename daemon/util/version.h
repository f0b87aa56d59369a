// SPDX-License-Identifier: Apache-2.0
// Version of this memprofd. The build writes both texts (deploy/version.sh).
#pragma once

#include <string>

namespace memprofd {

struct ProgramVersion {
  std::string version;        // of CHANGELOG.md: "0.2.0"
  std::string revision = {};  // output of git describe; empty if built without git
};

ProgramVersion program_version();

// Version of the API in gRPC, HTTP and JSON: the last part of the proto's package.
inline constexpr char kApiVersion[] = "v1";

// For people: "0.2.0 (v0.2.0-3-g0123456789ab)".
std::string version_text(const ProgramVersion& version);

}  // namespace memprofd
