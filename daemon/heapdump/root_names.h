// SPDX-License-Identifier: Apache-2.0
// Names the roots of a copy: the field of a module, the function of a thread, the file of C code.
// Names are determined by the address of each root, while all facts can still be read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/attach/inject/heap_copy.h"
#include "daemon/discover/target.h"
#include "daemon/heapdump/finaliser_tables.h"
#include "daemon/heapdump/frame_locations.h"
#include "daemon/heapdump/stack_slots.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/snapshot/module_blocks.h"
#include "daemon/symbolize/symbolizer.h"

namespace memprofd {

class RootNames {
 public:
  // All arguments must outlive this.
  RootNames(const Target& target, const ElfFile& program, const HeapCopy& copy,
            const ModuleTables& modules, Symbolizer& symbolizer);

  // All roots, with their names.
  void for_each(const std::function<void(std::uint64_t value, const RootName& name)>& use);

 private:
  void find_domains();
  void find_threads(const RootSection& section);
  void add_stack_of(std::uint64_t thread);
  std::string thread_name(std::uint64_t thread, std::uint32_t domain) const;
  RootName name_of(const RootSection& section, const memprof_root& root);
  RootName name_of_c_root(std::uint64_t slot) const;
  // Empty if Memprof_values does not hold the slot.
  std::string name_by_the_program(std::uint64_t slot) const;
  RootName name_in_thread(const memprof_root& root);
  std::string file_at(std::uint64_t address) const;

  const Target& target_;
  const HeapCopy& copy_;
  FrameLocations locations_;
  const ModuleBlocks modules_;
  const FinaliserTables finalisers_;
  StackSlots stacks_;
  std::vector<Mapping> mappings_;
  absl::flat_hash_map<std::uint64_t, std::string> threads_;  // by the runtime's structure
  std::vector<std::string> domains_;                         // by number; OCaml 4 has one
  std::vector<std::string> current_threads_;                 // that run in them
  std::string thread_;                                       // whose roots are being named
};

}  // namespace memprofd
