// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/plugins.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "daemon/discover/agent_finder.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

bool names_frame_table(std::string_view symbol) {
  return symbol.starts_with("caml") &&
         (symbol.ends_with("__frametable") || symbol.ends_with(".frametable"));
}

// True if the dynamic linker has relocated the file; before that, its tables contain addresses
// relative to the file.
bool is_relocated(const FrameTable& frames, const ElfFile& file, std::uint64_t load_bias) {
  const auto& all = frames.descriptors();
  return std::all_of(all.begin(), all.end(), [&](const FrameDescriptor& descriptor) {
    const std::uint64_t in_file = descriptor.return_address - load_bias;
    return std::any_of(file.segments().begin(), file.segments().end(), [&](const auto& segment) {
      return segment.executable && in_file - segment.address <= segment.memory_size;
    });
  });
}

// Number of plugins without room after which an inspection ends, because each takes as much time as
// one that fits.
constexpr int kMaxTooLarge = 4;

}  // namespace

void PluginFinder::note(Problem problem, std::string line) {
  if (seen_problems_.insert(problem).second) problems_.push_back(std::move(line));
}

void PluginFinder::note_incomplete(const ElfFile& file, const FrameTable& frames) {
  if (!file.why_incomplete().empty()) {
    note(Problem::kSymbols, file.why_incomplete() + "; if it is OCaml code, callstacks end there");
  }
  if (frames.without_room > 0) {
    note(Problem::kNoRoom,
         fmt::format("{}: {} of its frame descriptors do not fit into the {} that are kept of one "
                     "target; callstacks end at their code",
                     file.display_name(), frames.without_room,
                     format_bytes(static_cast<double>(kTargetBytes))));
  }
  if (frames.skipped > frames.without_room) {
    note(Problem::kMalformed,
         fmt::format("{}: {} of its frame descriptors are malformed or unreadable; callstacks end "
                     "at their code",
                     file.display_name(), frames.skipped - frames.without_room));
  }
}

// A file that cannot be opened for lack of file descriptors is tried again in the next inspection.
PluginFinder::PluginState PluginFinder::read_plugin(const Mapping& mapping,
                                                    std::span<const Mapping> maps,
                                                    const MemoryReader& memory, OcamlCode& out) {
  absl::StatusOr<MappedFile> mapped = open_mapping(proc_, pid_, mapping, budget_);
  if (absl::IsResourceExhausted(mapped.status())) {
    note(Problem::kNotOpened, std::string(mapped.status().message()));
    return PluginState::kNotReady;
  }
  if (!mapped.ok()) return PluginState::kNothing;
  std::unique_ptr<ElfFile>& file = mapped->elf;
  std::vector<std::uint64_t> tables = file->dynamic_symbols(names_frame_table);
  const auto bias = file->load_bias(mapping.begin, mapping.end, mapping.offset);
  if (tables.empty() || !bias) {
    note_incomplete(*file, FrameTable());
    return PluginState::kNothing;
  }
  for (std::uint64_t& table : tables) table += *bias;
  out.frames = read_frame_tables(memory, maps, tables, budget_, room_ + 1);
  const auto& descriptors = out.frames.descriptors();
  if (!descriptors.empty() && !is_relocated(out.frames, *file, *bias))
    return PluginState::kNotReady;
  if (descriptors.size() > room_) return PluginState::kTooLarge;
  note_incomplete(*file, out.frames);
  if (descriptors.empty()) return PluginState::kNothing;
  out.file = std::move(file);
  out.load_bias = *bias;
  return PluginState::kPlugin;
}

// Also forgets a file that was loaded again at another address.
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
    const PluginState found = read_plugin(mapping, maps, memory, plugin);
    if (found == PluginState::kNotReady) continue;
    known_.emplace(FileId{mapping.device, mapping.inode}, mapping.begin);
    if (found == PluginState::kNothing) continue;
    if (found == PluginState::kPlugin && plugins_ < kMaxPlugins) {
      keep(std::move(plugin), plugins);
      continue;
    }
    ++left_out_;
    if (++too_large == kMaxTooLarge) break;
  }
  return plugins;
}

}  // namespace memprofd
