// SPDX-License-Identifier: Apache-2.0
// OCaml code that a running program has loaded with Dynlink.
//
// Dynlink finds the frame table of each unit of a plugin by its dynamic symbol
// ("camlMod__frametable", from OCaml 5 on "camlMod.frametable"). This code does the same, so it
// does not need the runtime's own tables, which differ between versions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "daemon/discover/elf_file.h"
#include "daemon/discover/frame_table.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/file_id.h"

namespace memprofd {

// A file with OCaml code in a process.
struct OcamlCode {
  std::unique_ptr<ElfFile> file;  // kept open: it outlives the process
  std::uint64_t load_bias = 0;    // from the file's addresses to the process's
  FrameTable frames;              // addresses as in the process
};

class PluginFinder {
 public:
  static constexpr std::size_t kMaxPlugins = 1024;            // each keeps its file open
  static constexpr std::uint64_t kMaxDescriptors = 1u << 20;  // total of all plugins
  static constexpr std::size_t kMaxFiles = 8192;              // mapped, and known to be no plugin

  PluginFinder() = default;
  // exe: the program's own file, as maps prints it, which is no plugin. budget: that of the target,
  // for data about plugins.
  PluginFinder(int pid, std::string exe, ProcFs proc = ProcFs(), SharedBudget budget = nullptr)
      : pid_(pid), exe_(std::move(exe)), proc_(std::move(proc)), budget_(std::move(budget)) {}

  // Returns the plugins among the mapped files that were not returned before; each once, even if it
  // is mapped several times. Leaves files that are just being loaded, and all files after the stop,
  // for the next call.
  std::vector<OcamlCode> find_new(const std::vector<Mapping>& maps, const MemoryReader& memory,
                                  const std::stop_token& stop = {});

  // Limits the frame descriptors of further plugins to the room in the kernel's table.
  void set_room(std::uint64_t descriptors) { room_ = std::min(room_, descriptors); }
  // Plugins that were left out because of a cap.
  std::uint64_t left_out() const { return left_out_; }
  // Other plugins that could not be used: one line for the first of each reason.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  enum class Problem { kNotOpened, kSymbols, kMalformed, kNoRoom };
  enum class PluginState { kNothing, kPlugin, kTooLarge, kNotReady };

  PluginState read_plugin(const Mapping& mapping, std::span<const Mapping> maps,
                          const MemoryReader& memory, OcamlCode& out);
  void note(Problem problem, std::string line);
  void note_incomplete(const ElfFile& file, const FrameTable& frames);
  void forget_unmapped(const std::vector<Mapping>& maps);
  bool is_candidate(const Mapping& mapping) const;
  void keep(OcamlCode plugin, std::vector<OcamlCode>& plugins);

  int pid_ = 0;
  std::string exe_;
  ProcFs proc_;
  SharedBudget budget_;
  std::map<FileId, std::uint64_t> known_;  // current mapping address of each
  std::size_t plugins_ = 0;
  std::uint64_t room_ = kMaxDescriptors;
  std::uint64_t left_out_ = 0;
  std::set<Problem> seen_problems_;
  std::vector<std::string> problems_;
};

}  // namespace memprofd
