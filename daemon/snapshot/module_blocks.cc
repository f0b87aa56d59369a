// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/module_blocks.h"

#include <algorithm>
#include <utility>

#include "daemon/model/location.h"
#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

constexpr std::size_t kMaxModules = 1u << 16;
constexpr std::size_t kMaxBlocksOfOne = 1u << 16;
constexpr std::size_t kMaxBlocks = 1u << 20;
constexpr std::uint64_t kMaxFields = 1u << 24;
// Number of a module's frames that are tried for its name.
constexpr std::ptrdiff_t kFramesAsked = 8;
// Tables of the program's start and of the runtime come first.
constexpr std::uint64_t kTablesBefore = 2;

using ByAddress = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

// Descriptors by address, with their return addresses.
ByAddress by_place(const FrameTable& frames) {
  ByAddress places;
  for (const FrameDescriptor& frame : frames.descriptors()) {
    places.emplace_back(frame.address, frame.return_address);
  }
  std::sort(places.begin(), places.end());
  return places;
}

// Code of the module, or nothing if its name is not known. The outermost function belongs to the
// module; inlined ones may belong to others. A table begins with its number of frames; frames
// beyond it belong to another module.
Location code_at(std::uint64_t table, std::uint64_t frames, const ByAddress& places,
                 Symbolizer& symbolizer) {
  const auto first =
      std::lower_bound(places.begin(), places.end(), std::pair(table, std::uint64_t{0}));
  const auto asked = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(frames, kFramesAsked));
  const auto end = first + std::min(asked, places.end() - first);
  for (auto place = first; place != end; ++place) {
    const std::vector<Location> found = symbolizer.locations(place->second, -1);
    if (found.empty()) continue;
    if (is_unit_name(compilation_unit(found.back().function, ""))) return found.back();
  }
  return {};
}

}  // namespace

ModuleTables ModuleTables::find(const ElfFile& program, std::uint64_t load_bias) {
  static constexpr std::string_view kNames[] = {"caml_globals", "caml_frametable"};
  const auto symbols = program.find_symbols(kNames);
  if (!symbols[0] || !symbols[1]) return {};
  return {load_bias + symbols[0]->address, load_bias + symbols[1]->address};
}

ModuleBlocks ModuleBlocks::read(const MemoryReader& memory, const ModuleTables& tables,
                                const FrameTable& frames, Symbolizer& symbolizer) {
  ModuleBlocks found;
  if (tables.globals == 0 || tables.frametable == 0) return found;
  const ByAddress places = by_place(frames);
  for (std::uint64_t i = 0; i < kMaxModules && found.blocks_.size() < kMaxBlocks; ++i) {
    std::uint64_t list = 0;
    std::uint64_t table = 0, frames = 0;
    if (!memory.read_value(tables.globals + 8 * i, list).ok() || list == 0) break;
    const bool has_table =
        memory.read_value(tables.frametable + 8 * (i + kTablesBefore), table).ok() && table != 0 &&
        memory.read_value(table, frames).ok();
    const Location code = has_table ? code_at(table, frames, places, symbolizer) : Location();
    const std::string_view unit = compilation_unit(code.function, "");
    found.names_.emplace_back(is_unit_name(unit) ? unit : "");
    found.authors_.push_back(author_of(code));
    found.add_module(memory, list);
  }
  std::sort(found.blocks_.begin(), found.blocks_.end(),
            [](const Block& a, const Block& b) { return a.begin < b.begin; });
  return found;
}

void ModuleBlocks::add_module(const MemoryReader& memory, std::uint64_t list) {
  const auto module = static_cast<std::uint32_t>(names_.size() - 1);
  for (std::uint64_t i = 0; i < kMaxBlocksOfOne; ++i) {
    std::uint64_t block = 0;
    std::uint64_t header = 0;
    if (!memory.read_value(list + 8 * i, block).ok() || block == 0 ||
        !memory.read_value(block - kWordBytes, header).ok()) {
      return;
    }
    const std::uint64_t fields = std::min(fields_of(header), kMaxFields);
    blocks_.push_back({block, block + fields * kWordBytes, module, i == 0});
  }
}

std::vector<ModuleBlocks::Module> ModuleBlocks::modules() const {
  std::vector<Module> found;
  for (const Block& block : blocks_) {
    if (!block.is_first) continue;
    found.push_back({names_[block.module], block.begin, (block.end - block.begin) / kWordBytes,
                     authors_[block.module]});
  }
  return found;
}

std::optional<ModuleBlocks::ModuleField> ModuleBlocks::find(std::uint64_t slot) const {
  const auto after =
      std::upper_bound(blocks_.begin(), blocks_.end(), slot,
                       [](std::uint64_t place, const Block& block) { return place < block.begin; });
  if (after == blocks_.begin() || slot >= (after - 1)->end) return std::nullopt;
  const Block& block = *(after - 1);
  ModuleField place{names_[block.module], std::nullopt};
  if (block.is_first) place.field = static_cast<std::uint32_t>((slot - block.begin) / kWordBytes);
  return place;
}

}  // namespace memprofd
