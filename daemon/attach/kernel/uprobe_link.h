// SPDX-License-Identifier: Apache-2.0
// A uprobe in one process: a place in a file's code where a BPF program runs.
//
// The place is given by an open descriptor. A name would be resolved when the probe is placed, and
// by then the process may have made it the name of another program, whose instructions the
// breakpoint would overwrite. The kernel itself holds the file.
//
// There are two kinds. A multi link (BPF_TRACE_UPROBE_MULTI, Linux 6.6) costs the process nothing
// except the hits. A perf event, for older kernels, is switched at each context switch of the
// process's threads, and takes more than twice as long to remove. A program is loaded for one of
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/attach/kernel/bpf_support.h"
#include "daemon/util/shared_fd.h"

namespace memprofd {

enum class UprobeKind { kMultiLink, kPerfEvent };

// The best kind that works on this kernel; tested once.
UprobeKind best_uprobe_kind();

struct ProbeSite {
  SharedFd file;
  std::uint64_t offset = 0;            // in the file
  std::uint64_t semaphore_offset = 0;  // in the file; 0: has none
  std::uint64_t cookie = 0;            // for the program; multi links of one place have none
};

// Many places of one file. The program learns at which of them it runs by its cookie
// (bpf_get_attach_cookie, Linux 5.15).
struct ProbeSites {
  SharedFd file;
  std::vector<std::uint64_t> offsets;  // in the file, not empty
  std::vector<std::uint64_t> cookies;  // one for each
};

// The place of an address in this program's own code.
std::optional<ProbeSite> site_in_this_program(std::uint64_t address);

// Call this before the program is loaded.
void choose_uprobe_kind(bpf_program* program, UprobeKind kind);

class UprobeLink {
 public:
  // `what` is for messages: "the capture probe". pid: a process in our pid namespace; other
  // processes with this file get no breakpoint.
  static absl::StatusOr<UprobeLink> attach(const bpf_program* program, UprobeKind kind, int pid,
                                           const ProbeSite& site, std::string_view what);
  // Attaches all sites with one multi link, which takes milliseconds for a thousand.
  static absl::StatusOr<UprobeLink> attach_all(const bpf_program* program, int pid,
                                               const ProbeSites& sites, std::string_view what);
  UprobeLink() = default;

  // The destructor removes the probe: the breakpoint and the semaphore at once, and then it waits
  // some tens of milliseconds for the kernel to release it.
  explicit operator bool() const { return link_ || event_ != nullptr; }

 private:
  UniqueFd link_;
  BpfLink event_;
};

}  // namespace memprofd
