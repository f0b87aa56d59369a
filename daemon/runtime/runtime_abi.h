// SPDX-License-Identifier: Apache-2.0
// Selects the row of the table of releases for a program, and the capabilities that it enables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/runtime/releases.h"

namespace memprofd {

// The facts are checked against the machine code of the running binary before use (code_check.h).
struct RuntimeAbi : RuntimeFacts {
  std::string version;   // as the program reports it ("4.13.1"), otherwise "4.13", determined by
                         // symbols
  CapabilitySet tested;  // tested on that series
  std::uint32_t c_stack = 0;  // OCaml 5: offset of the link to the stack of C code, read from the
                              // program; 0: unknown
};

// The interface of a version ("4.13.1", "4.14"). kFailedPrecondition, in one line, for a version
// without a row.
absl::StatusOr<RuntimeAbi> runtime_abi_for(std::string_view version);

// Checks that the capability was tested with the runtime; otherwise kFailedPrecondition, in one
// line: "heap snapshots of OCaml 5.6.0 are not supported yet, only those of ...".
absl::Status check_capability(const RuntimeAbi& abi, Capability what);

// "4.13" for "4.13.1+flambda"; empty if the text is not a version.
std::string_view series_of(std::string_view version);

// Null for a format of the compiler's files that has no row, or whose types are not supported.
const TypedTree* typed_tree_of(int format);

}  // namespace memprofd
