// SPDX-License-Identifier: Apache-2.0
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

// Plugins beyond the room after which a look ends: each costs as much as one that fits.
constexpr int kMaxTooLarge = 4;

enum class Found { kNothing, kPlugin, kTooLarge, kNotReady };

// room: how many descriptors it may have.
Found read_plugin(const std::string& path, const Mapping& mapping, std::span<const Mapping> maps,
                  const MemoryReader& memory, const SharedBudget& budget, std::uint64_t room,
                  OcamlCode& out) {
  auto file = path.empty() ? absl::NotFoundError("") : ElfFile::open(path, mapping.path, budget);
  if (!file.ok()) return Found::kNothing;
  std::vector<std::uint64_t> tables = (*file)->dynamic_symbols(names_frame_table);
  const auto bias = (*file)->load_bias(mapping.begin, mapping.end, mapping.offset);
  if (tables.empty() || !bias) return Found::kNothing;
  for (std::uint64_t& table : tables) table += *bias;
  out.frames = read_frame_tables(memory, maps, tables, budget, room + 1);
  if (out.frames.descriptors().empty()) return Found::kNothing;
  if (!is_relocated(out.frames, **file, *bias)) return Found::kNotReady;
  if (out.frames.descriptors().size() > room) return Found::kTooLarge;
  out.file = *std::move(file);
  out.load_bias = *bias;
  return Found::kPlugin;
}

}  // namespace

// Also when it is mapped elsewhere by now: it was loaded again.
void PluginFinder::forget_unmapped(const std::vector<Mapping>& maps) {
  std::map<FileId, std::uint64_t> still;
  for (const Mapping& mapping : maps) {
    const auto known = known_.find({mapping.device, mapping.inode});
    if (known != known_.end() && known->second == mapping.begin) still.insert(*known);
  }
  known_ = std::move(still);
}

bool PluginFinder::is_candidate(const Mapping& mapping) const {
  return mapping.executable && mapping.path.starts_with('/') && mapping.path != exe_ &&
         !known_.contains({mapping.device, mapping.inode});
}

void PluginFinder::keep(OcamlCode plugin, std::vector<OcamlCode>& plugins) {
  ++plugins_;
  room_ -= plugin.frames.descriptors().size();
  plugins.push_back(std::move(plugin));
}

std::vector<OcamlCode> PluginFinder::find_new(const std::vector<Mapping>& maps,
                                              const MemoryReader& memory,
                                              const std::stop_token& stop) {
  std::vector<OcamlCode> plugins;
  int too_large = 0;
  forget_unmapped(maps);
  for (const Mapping& mapping : maps) {
    if (stop.stop_requested() || known_.size() >= kMaxFiles) break;
    if (!is_candidate(mapping)) continue;
    OcamlCode plugin;
    const std::string path = path_of_mapping(proc_, pid_, mapping);
    const Found found = read_plugin(path, mapping, maps, memory, budget_, room_, plugin);
    if (found == Found::kNotReady) continue;
    known_.emplace(FileId{mapping.device, mapping.inode}, mapping.begin);
    if (found == Found::kNothing) continue;
    if (found == Found::kPlugin && plugins_ < kMaxPlugins) {
      keep(std::move(plugin), plugins);
      continue;
    }
    ++left_out_;
    if (++too_large == kMaxTooLarge) break;
  }
  return plugins;
}

absl::StatusOr<std::vector<OcamlCode>> PluginFinder::find_new(const MemoryReader& memory) {
  ASSIGN_OR_RETURN(const auto maps, proc_.maps(pid_));
  return find_new(maps, memory);
}

}  // namespace memprofd
