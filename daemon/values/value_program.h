// SPDX-License-Identifier: Apache-2.0
// A program whose values are read from outside: its modules and the clock of its heap, found once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/target.h"
#include "daemon/snapshot/module_blocks.h"
#include "daemon/snapshot/types/guarded_types.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/util/threads/mutex.h"
#include "daemon/values/field_names.h"
#include "daemon/values/heap_clock.h"
#include "daemon/values/kept_values.h"

namespace memprofd {

// Outlives the target that it was made from. Any thread.
class ValueProgram {
 public:
  ValueProgram(const Target& target, std::shared_ptr<Symbolizer> symbolizer);

  struct Layout {
    absl::StatusOr<HeapClock> clock;            // or why no value of the heap can be read
    std::vector<ModuleBlocks::Module> modules;  // none without a clock
    InterfaceDigests interfaces;                // of its units
    AddressRange image;                         // of the program's own code and data
  };
  // Searches at the first call, in time proportional to the number of modules. Fails if the file of
  // the program cannot be read.
  absl::StatusOr<std::shared_ptr<const Layout>> found();

  // Names in the source. The first call searches for the compilers' files, which may take seconds.
  std::shared_ptr<const FieldNames> names(const Layout& found, const GuardedTypes& types);

  int pid() const { return pid_; }
  // True for the same attach: after an exec, or with a reused pid, the program is another.
  bool is_same_program(const ValueProgram& other) const { return memory_ == other.memory_; }
  const WritableMemory& memory() const { return *memory_; }
  // Address of the registry of published values; 0: none. quick_memory() soon gives up on memory
  // that does not respond.
  std::uint64_t registry() const { return registry_; }
  const WritableMemory& quick_memory() const { return memory_->quick(); }
  absl::StatusOr<std::vector<Mapping>> mappings() const { return memory_->maps(); }
  KeptValues& kept() { return kept_; }
  // "Server.handle", or empty.
  std::string function_at(std::uint64_t code) const;

 private:
  absl::StatusOr<Layout> locate() const;
  absl::StatusOr<HeapClock> find_modules(const ElfFile& program,
                                         std::vector<ModuleBlocks::Module>& modules) const;

  const int pid_;
  const std::shared_ptr<TargetMemory> memory_;
  const SharedFd file_;
  const std::string exe_;
  const RuntimeAbi abi_;
  const HeapClock::Addresses addresses_;
  const std::uint64_t registry_;
  const SharedBudget budget_;
  const std::shared_ptr<Symbolizer> symbolizer_;

  KeptValues kept_;
  Mutex mutex_;
  std::shared_ptr<const Layout> found_ ABSL_GUARDED_BY(mutex_);  // null: not yet
  Mutex names_mutex_;
  std::shared_ptr<const FieldNames> names_ ABSL_GUARDED_BY(names_mutex_);  // null: not yet
};

}  // namespace memprofd
