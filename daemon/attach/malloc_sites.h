// SPDX-License-Identifier: Apache-2.0
// Finds the malloc functions that a program uses, and the addresses for probes in them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/attach/kernel/uprobe_link.h"
#include "daemon/discover/target.h"

namespace memprofd {

struct MallocSites {
  std::string path;  // path as the program mapped it
  // The cookies are MEMPROF_C_COOKIE values. A call at one of `calls` returns to the word at rsp.
  ProbeSites calls;
  ProbeSites frees;
};

// Finds the malloc of the first file in the dynamic linker's list that has one, because calls of
// the program bind to it. Without such a list takes the program's own, otherwise that of a library
// that replaces the C library's, otherwise the C library's. Reads files of the process.
// kFailedPrecondition, a few words: there is none, they cannot be distinguished, or its code is not
// understood.
absl::StatusOr<MallocSites> find_malloc(const Target& target);

}  // namespace memprofd
