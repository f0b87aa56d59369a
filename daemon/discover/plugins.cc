#include "daemon/discover/plugins.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "daemon/discover/agent_finder.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

bool names_frame_table(std::string_view symbol) {
  return symbol.starts_with("caml") &&
         (symbol.ends_with("__frametable") || symbol.ends_with(".frametable"));
}

// Until the dynamic linker has relocated a file, its tables hold the file's addresses.
bool is_relocated(const FrameTable& frames, const ElfFile& file, std::uint64_t load_bias) {
  const auto& all = frames.descriptors();
  return std::all_of(all.begin(), all.end(), [&](const FrameDescriptor& descriptor) {
    const std::uint64_t in_file = descriptor.return_address - load_bias;
    return std::any_of(file.segments().begin(), file.segments().end(), [&](const auto& segment) {
      return segment.executable && in_file - segment.address <= segment.memory_size;
    });
  });
}

enum class Found { kNothing, kPlugin, kNotReady };

Found read_plugin(const std::string& path, const Mapping& mapping, const MemoryReader& memory,
                  const SharedBudget& budget, OcamlCode& out) {
  auto file = path.empty() ? absl::NotFoundError("") : ElfFile::open(path, mapping.path, budget);
  if (!file.ok()) return Found::kNothing;
  std::vector<std::uint64_t> tables = (*file)->dynamic_symbols(names_frame_table);
  const auto bias = (*file)->load_bias(mapping.begin, mapping.end, mapping.offset);
  if (tables.empty() || !bias) return Found::kNothing;
  for (std::uint64_t& table : tables) table += *bias;
  out.frames = read_frame_tables(memory, tables, budget);
  if (out.frames.descriptors().empty()) return Found::kNothing;
  if (!is_relocated(out.frames, **file, *bias)) return Found::kNotReady;
  out.file = *std::move(file);
  out.load_bias = *bias;
  return Found::kPlugin;
}

}  // namespace

std::vector<OcamlCode> PluginFinder::find_new(const std::vector<Mapping>& maps,
                                              const MemoryReader& memory) {
  std::vector<OcamlCode> plugins;
  for (const Mapping& mapping : maps) {
    if (!mapping.executable || !mapping.path.starts_with('/') || mapping.path == exe_) continue;
    const auto file = seen_.emplace(mapping.device, mapping.inode, mapping.begin);
    if (!file.second) continue;
    OcamlCode plugin;
    const std::string path = path_of_mapping(proc_, pid_, mapping);
    const Found found = read_plugin(path, mapping, memory, budget_, plugin);
    if (found == Found::kPlugin) plugins.push_back(std::move(plugin));
    if (found == Found::kNotReady) seen_.erase(file.first);
  }
  return plugins;
}

absl::StatusOr<std::vector<OcamlCode>> PluginFinder::find_new(const MemoryReader& memory) {
  ASSIGN_OR_RETURN(const auto maps, proc_.maps(pid_));
  return find_new(maps, memory);
}

}  // namespace memprofd
