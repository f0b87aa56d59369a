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

// The malloc of the file that the dynamic linker loaded first of those that have one, as it binds
// calls of the program; without such a list the program's own, otherwise that of a library that
// replaces the C library's, otherwise the C library's. Reads files of the process.
// kFailedPrecondition, a few words: none is found, they cannot be distinguished, or its code is not
// understood.
absl::StatusOr<MallocSites> find_malloc(const Target& target);

}  // namespace memprofd
