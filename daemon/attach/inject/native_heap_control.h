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
  // address is that of memprof_c_heap in the process, which is under these filters of seccomp.
  // note_place: as of struct memprof_c_heap.
  NativeHeapControl(int pid, const WritableMemory& memory, std::uint64_t address,
                    std::uint64_t note_place, Filters filters)
      : pid_(pid),
        memory_(&memory),
        address_(address),
        note_place_(note_place),
        filters_(filters) {}
  // The same through another way to that memory.
  NativeHeapControl through(const WritableMemory& memory) const {
    return {pid_, memory, address_, note_place_, filters_};
  }

  // kDataLoss when what lies there is another build's.
  absl::StatusOr<memprof_c_heap> status() const;
  // interval: bytes per sample; 0: stop, and restore the slots. generation: not 0; a new one
  // restarts.
  absl::Status request(std::uint64_t interval, std::uint32_t generation) const;
  // Again and again, and before each request. A program that has got itself under other filters
  // may be killed for what the agent would do to slots: from then on they stay as they are.
  void inspect_filters() const;

 private:
  int pid_;
  const WritableMemory* memory_;  // not owned
  std::uint64_t address_;
  std::uint64_t note_place_;
  Filters filters_;
};

// Why C's memory is not followed, or not all of it, one line; empty: it is, or will be.
std::string what_is_not_followed(const memprof_c_heap& status);

}  // namespace memprofd
