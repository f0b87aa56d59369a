// SPDX-License-Identifier: Apache-2.0
// A program whose values are read from outside: its modules and the clock of its heap, found once.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/target.h"
#include "daemon/snapshot/taking/module_blocks.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/values/heap_clock.h"

namespace memprofd {

// Outlives the target that it was made from. Any thread.
class ValueProgram {
 public:
  ValueProgram(const Target& target, std::shared_ptr<Symbolizer> symbolizer);

  struct Found {
    HeapClock clock;
    std::vector<ModuleBlocks::Module> modules;
    AddressRange image;  // of the program's own code and data
  };
  // Looks at the first call, which takes as long as the program has modules. kFailedPrecondition,
  // in one line, when its values cannot be read.
  absl::StatusOr<const Found*> found();

  int pid() const { return pid_; }
  const MemoryReader& memory() const { return *memory_; }
  absl::StatusOr<std::vector<Mapping>> mappings() const { return memory_->maps(); }
  // "Server.handle", or empty.
  std::string function_at(std::uint64_t code) const;

 private:
  absl::StatusOr<Found> look() const;

  const int pid_;
  const std::shared_ptr<TargetMemory> memory_;
  const SharedFd file_;
  const std::string exe_;
  const RuntimeAbi abi_;
  const HeapClock::Place place_;
  const SharedBudget budget_;
  const std::shared_ptr<Symbolizer> symbolizer_;

  std::mutex mutex_;
  std::optional<absl::StatusOr<Found>> found_;  // guarded by mutex_
};

}  // namespace memprofd
