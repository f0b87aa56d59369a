// SPDX-License-Identifier: Apache-2.0
// Has a program load the agent without a privilege, a probe or a stopped thread: the runtime calls
// a function of its choice (caml_minor_gc_end_hook) at the end of each minor collection, on a
// thread that holds the runtime lock, and agents start there too. A few instructions are put where
// that pointer leads:
//
//     code    behind the last instruction of a library, in the rest of its last page, which no code
//             uses: as a private copy of the process
//     hook    is set last. The first thread that comes sets it back, loads the agent and calls what
//             the hook had before
//
// Nothing depends on us: if we are killed before the hook is set, nothing has changed for the
// program; after that it loads an agent that does nothing until it is asked. The code stays there,
// because a thread may still be in it. A thread with less than 64 KiB of stack leaves the work to a
// later collection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/discover/target.h"

namespace memprofd {

// The words that the code uses, and the file to load.
struct HookCode {
  std::uint64_t hook = 0;    // address of caml_minor_gc_end_hook
  std::uint64_t before = 0;  // its value
  std::uint64_t dlopen = 0;  // address of that function
  std::string path;
};

// The code with a header by which it is recognized. It runs anywhere.
std::vector<std::byte> hook_code(const HookCode& code);
// Its first instruction, from its start.
inline constexpr std::size_t kHookCodeHead = 16;
// Bytes that such code at the start of this memory takes; 0: there is none.
std::size_t hook_code_size(std::span<const std::byte> memory);

class HookLoader {
 public:
  // The target must outlive it. kFailedPrecondition, in one line: no code can be put there, or
  // nothing calls it; other errors as for TargetMemory.
  static absl::StatusOr<HookLoader> start(const Target& target, std::uint64_t dlopen,
                                          const std::string& agent_path);

  enum class Progress {
    kWaiting,  // no thread has come yet
    kLoading,  // one is in the dynamic linker, or was refused the file
    kLoaded,   // the agent has set the hook, with which its constructor ends
  };
  absl::StatusOr<Progress> progress() const;

 private:
  HookLoader(const Target& target, std::uint64_t hook, std::uint64_t code, std::uint64_t before)
      : target_(&target), hook_(hook), code_(code), before_(before) {}

  const Target* target_;  // not owned
  std::uint64_t hook_;    // address of the pointer
  std::uint64_t code_;    // where it leads
  std::uint64_t before_;  // where it leads once a thread has come
};

}  // namespace memprofd
