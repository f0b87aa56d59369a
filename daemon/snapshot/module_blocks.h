// SPDX-License-Identifier: Apache-2.0
// The blocks of a program's modules, which contain the modules' definitions: static data, outside
// of the heap. The program may be hostile, so reads are bounded and invalid data is ignored.
//
//     caml_globals[i] ---> blocks of module i, 0 after the last; the first contains its fields
//     caml_frametable[i + 2] ---> frames of its code, whose debug information names it
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/discover/elf_file.h"
#include "daemon/discover/frame_table.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/model/code_author.h"
#include "daemon/symbolize/symbolizer.h"

namespace memprofd {

// Addresses in the process; both are 0 if the program does not have them.
struct ModuleTables {
  static ModuleTables find(const ElfFile& program, std::uint64_t load_bias);

  std::uint64_t globals = 0;     // caml_globals
  std::uint64_t frametable = 0;  // caml_frametable
};

class ModuleBlocks {
 public:
  static ModuleBlocks read(const MemoryReader& memory, const ModuleTables& tables,
                           const FrameTable& frames, Symbolizer& symbolizer);

  struct ModuleField {
    const std::string& module;           // empty: its name is not known
    std::optional<std::uint32_t> field;  // nothing: in a block that is not the module's first
  };
  struct Module {
    std::string name;          // empty: not known
    std::uint64_t fields = 0;  // address of its first definition
    std::uint64_t count = 0;
    CodeAuthor author = CodeAuthor::kApplication;
  };
  // The modules whose fields are known, by address.
  std::vector<Module> modules() const;
  // nullopt if the slot is in no module.
  std::optional<ModuleField> find(std::uint64_t slot) const;

 private:
  struct Block {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint32_t module = 0;
    bool is_first = false;
  };

  void add_module(const MemoryReader& memory, std::uint64_t list);

  std::vector<Block> blocks_;  // by address
  std::vector<std::string> names_;
  std::vector<CodeAuthor> authors_;  // one for each name
};

}  // namespace memprofd
