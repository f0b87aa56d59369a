// SPDX-License-Identifier: Apache-2.0
// The row of the table of releases that is a program's, and what may be done by it.
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
  std::string version;        // as the program reports it ("4.13.1"), else "4.13" by symbols
  CapabilitySet tested;       // on that series
  std::uint32_t c_stack = 0;  // OCaml 5: the link to the stack of C code, read from the program; 0:
                              // not known
};

// The interface of a version ("4.13.1", "4.14"); kFailedPrecondition, in one line, for one without
// a row.
absl::StatusOr<RuntimeAbi> runtime_abi_for(std::string_view version);

// Checks that the capability was tested with the runtime; otherwise kFailedPrecondition, in one
// line: "heap snapshots of OCaml 5.6.0 are not supported yet, only those of ...".
absl::Status check_capability(const RuntimeAbi& abi, Capability what);

// "4.13" of "4.13.1+flambda"; empty when the text is no version.
std::string_view series_of(std::string_view version);

// Null for a format of the compiler's files that no row has, or none whose types are read.
const TypedTree* typed_tree_of(int format);

}  // namespace memprofd
