// SPDX-License-Identifier: Apache-2.0
// Explains errors of calls that open something, if no descriptor is left.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace memprofd {

// The cause and remedy of EMFILE and ENFILE, one line without end; empty for any other errno.
std::string out_of_files(int error);

// "ACTION: why", kResourceExhausted with the remedy when that is it. action: "cannot open FILE".
absl::Status file_error(int error, std::string_view action);

// Descriptors of an attached target without plugins.
inline constexpr int kFilesOfTarget = 40;

// The same error if that many files cannot be opened now. For callers of a library that misreports
// a lack of descriptors.
absl::Status check_free_files(int number, std::string_view action);

}  // namespace memprofd
