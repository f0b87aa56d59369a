// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace memprofd {

// Makes the directory if only it itself is missing, for its owner alone. kInvalidArgument, in one
// line with the remedy: no files can be created in it. contents: "snapshots"; option: the one that
// names the directory.
absl::Status make_writable_directory(const std::string& path, std::string_view contents,
                                     std::string_view option);

}  // namespace memprofd
