// SPDX-License-Identifier: Apache-2.0
// Explains errors of calls that open files when no descriptor is left.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace memprofd {

// One-line cause and remedy of EMFILE and ENFILE, without a line end; empty for any other errno.
std::string out_of_files(int error);

// Returns "ACTION: why"; kResourceExhausted with the remedy if descriptors ran out. action: "cannot
// open FILE".
absl::Status file_error(int error, std::string_view action);

// Number of descriptors for an attached target without plugins.
inline constexpr int kFilesOfTarget = 40;

// Returns the error of missing descriptors if that many files cannot be opened now. For callers of
// a library that misreports a lack of descriptors.
absl::Status check_free_files(int number, std::string_view action);

}  // namespace memprofd
