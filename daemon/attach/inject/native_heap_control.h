// SPDX-License-Identifier: Apache-2.0
// Requests to the agent to follow the native heap, written from outside
// (agent-lib/include/memprof_native_heap_abi.h).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent-lib/include/memprof_native_heap_abi.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/discover/proc_fs.h"

namespace memprofd {

// The seccomp state of a process.
struct Filters {
  int mode = 0;
  int count = 0;
  bool operator==(const Filters&) const = default;
};
Filters filters_of(const ProcessStatus& status);

class NativeHeapControl {
 public:
  // address: that of memprof_c_heap in the process. note_place: see struct memprof_c_heap. filters:
  // the seccomp state of the process.
  NativeHeapControl(int pid, const WritableMemory& memory, std::uint64_t address,
                    std::uint64_t note_place, Filters filters)
      : pid_(pid),
        memory_(&memory),
        address_(address),
        note_place_(note_place),
        filters_(filters) {}
  // The same control block, accessed through another memory object.
  NativeHeapControl through(const WritableMemory& memory) const {
    return {pid_, memory, address_, note_place_, filters_};
  }

  // kDataLoss: the block is of another build.
  absl::StatusOr<memprof_c_heap> status() const;
  // interval: bytes per sample; 0: stop, and restore the slots. generation: not 0; a new one
  // restarts.
  absl::Status request(std::uint64_t interval, std::uint32_t generation) const;
  // Call it repeatedly, and before each request. If the program has entered other filters, these
  // might kill it for what the agent does to the slots, so the slots then stay as they are.
  void inspect_filters() const;

 private:
  int pid_;
  const WritableMemory* memory_;  // not owned
  std::uint64_t address_;
  std::uint64_t note_place_;
  Filters filters_;
};

// Why the native heap is not followed, or only in part, in one line; empty: it is, or will be.
std::string what_is_not_followed(const memprof_c_heap& status);

}  // namespace memprofd
