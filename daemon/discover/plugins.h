// OCaml code that a running program has loaded with Dynlink.
//
// Dynlink finds the frame table of each unit of a plugin by its dynamic symbol
// ("camlMod__frametable", from OCaml 5 on "camlMod.frametable"), and so does this:
// nothing of the runtime's own tables, which differ between versions, is needed.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/discover/elf_file.h"
#include "daemon/discover/frame_table.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/discover/proc_fs.h"

namespace memprofd {

// One file of OCaml code in a process.
struct OcamlCode {
  std::unique_ptr<ElfFile> file;  // kept open: it outlives the process
  std::uint64_t load_bias = 0;    // from the file's addresses to the process's
  FrameTable frames;              // addresses as in the process
};

class PluginFinder {
 public:
  PluginFinder() = default;
  // exe: the program's own file, as maps prints it; it is no plugin.
  // budget: the target's, for what is kept of plugins.
  PluginFinder(int pid, std::string exe, ProcFs proc = ProcFs(), SharedBudget budget = nullptr)
      : pid_(pid), exe_(std::move(exe)), proc_(std::move(proc)), budget_(std::move(budget)) {}

  // The plugins among the mappings that were not answered before. A file that is
  // just being loaded is left for the next time.
  std::vector<OcamlCode> find_new(const std::vector<Mapping>& maps, const MemoryReader& memory);
  absl::StatusOr<std::vector<OcamlCode>> find_new(const MemoryReader& memory);

 private:
  using MappedFile = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

  int pid_ = 0;
  std::string exe_;
  ProcFs proc_;
  SharedBudget budget_;
  std::set<MappedFile> seen_;  // device, inode, address
};

}  // namespace memprofd
