// SPDX-License-Identifier: Apache-2.0
// The runtime's own counters of a program of the same user, read from its memory where the kernel
// permits it. They show growth between the ends of major collections.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/discover/gc_stats.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/discover/program_check.h"
#include "daemon/run/shared_agent.h"
#include "daemon/util/fd.h"

namespace memprofd {

class RuntimeCounters {
 public:
  // bias: address in the process minus address in the file. kFailedPrecondition: the process has
  // another pid here, because it is in another pid namespace; kPermissionDenied: its memory cannot
  // be read.
  static absl::StatusOr<RuntimeCounters> open(int pid, const std::string& exe,
                                              const OcamlProgram& program, std::uint64_t bias);

  // kOutOfRange: the program has ended; kUnavailable: its runtime has not started.
  absl::StatusOr<GcStats> read(const SharedAgent& agent) const;

 private:
  class Memory final : public MemoryReader {
   public:
    explicit Memory(UniqueFd file) : file_(std::move(file)) {}
    absl::Status read(std::uint64_t address, std::span<std::byte> out) const override;

   private:
    UniqueFd file_;
  };

  RuntimeCounters(Memory memory, const RuntimeAbi& abi) : memory_(std::move(memory)), abi_(abi) {}

  Memory memory_;
  RuntimeAbi abi_;
  std::uint64_t state_pointer_ = 0;  // OCaml 4: the address of Caml_state
  GcCounters counters_;
};

}  // namespace memprofd
