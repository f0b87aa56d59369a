// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/assign_types.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_replace.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/types/block_fit.h"
#include "daemon/snapshot/types/site_types.h"
#include "daemon/snapshot/types/source_types.h"
#include "daemon/snapshot/types/unit_block.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

class TypeAssigner {
 public:
  TypeAssigner(HeapImage& image, const FindUnit& find, std::size_t most_items)
      : image_(image), modules_(find, most_items), types_(modules_), kinds_(1) {
    image_.types.resize(1);
    image_.types_found = {};
  }

  void run() {
    give();
    for (const std::string& unit : modules_.other_builds()) {
      image_.types_found.other_builds.push_back(valid_utf8(unit));
    }
    image_.types_found.unverified = modules_.has_unverified();
  }

 private:
  void give() {
    find_units();
    SiteTypes sites(image_, modules_, types_);
    if (units_.empty() && sites.empty()) return;
    for (const auto sure :
         {UnitField::Sure::kExported, UnitField::Sure::kDefined, UnitField::Sure::kNested}) {
      begin_at_roots(sure);
      spread_all();
    }
    // A string may have been allocated as bytes; its users determine what it is.
    for (const bool strings : {false, true}) {
      begin_at_sites(sites, strings);
      spread_all();
    }
    label_roots();
  }

  struct UnitTypes {
    std::vector<UnitField> fields;
    std::vector<TypeId> types;  // types of the fields
  };

  // The shape that a block gets with its type: an existing one, usually that of the previous block
  // of the type.
  void set_type(std::uint32_t block, std::uint32_t type) {
    const std::uint32_t before = image_.shape_of[block];
    last_.resize(image_.types.size());
    auto& [last_before, last_after] = last_[type];
    if (last_after == 0 || last_before != before) {
      const auto [at, is_new] = typed_shapes_.try_emplace(
          std::pair(before, type), static_cast<std::uint32_t>(image_.shapes.size()));
      if (is_new) {
        image_.shapes.push_back(image_.shapes[before]);
        image_.shapes.back().type = type;
      }
      last_before = before;
      last_after = at->second;
    }
    image_.shape_of[block] = last_after;
  }

  void find_units() {
    for (const RootName& root : image_.root_names) {
      if (root.kind != RootKind::kGlobal || root.owner.empty()) continue;
      if (units_.contains(root.owner) || !missing_.try_emplace(root.owner, true).second) continue;
      UnitTypes unit{.fields = unit_block(modules_, root.owner)};
      if (unit.fields.empty()) {
        unit.fields = unit_block(modules_, absl::StrReplaceAll(root.owner, {{".", "__"}}));
      }
      if (unit.fields.empty()) continue;
      for (const UnitField& one : unit.fields) {
        unit.types.push_back(types_.of_field(one.module, one.field));
      }
      missing_.erase(root.owner);
      units_.emplace(root.owner, std::move(unit));
    }
    image_.types_found.modules = static_cast<std::uint32_t>(units_.size());
    image_.types_found.modules_without_files = static_cast<std::uint32_t>(missing_.size());
  }

  // "Sessions.all" of Demo_server's module Demo_server.Sessions.
  std::string label_of(const std::string& owner, const UnitField& one) const {
    if (one.field.name.empty()) return "";
    const std::string& module = modules_.name_of(one.module);
    const std::string inner =
        module.starts_with(owner + ".") ? module.substr(owner.size() + 1) + "." : "";
    return valid_utf8(inner + one.field.name);
  }

  // A name that is not exported is at the assumed field only if the block there has its type.
  bool is_sure(const UnitField& one, TypeId type, std::uint32_t block) {
    if (one.sure == UnitField::Sure::kExported) return true;
    if (type == SourceTypes::kUnknown) return false;
    return find_kind(block, type) != nullptr || (types_.is_lazy(type) && image_.type(block) != 0);
  }

  // A label that two fields share names neither.
  void label_roots() {
    std::map<std::pair<std::string, std::string>, int> times;
    for (const auto& [owner, unit] : units_) {
      for (const UnitField& one : unit.fields) ++times[{owner, label_of(owner, one)}];
    }
    for (const ImageRoot& root : image_.roots) {
      RootName& name = image_.root_names[root.name];
      if (name.kind != RootKind::kGlobal || !name.label.empty()) continue;
      const auto unit = units_.find(name.owner);
      if (unit == units_.end() || name.field >= unit->second.fields.size()) continue;
      const UnitField& one = unit->second.fields[name.field];
      if (!is_sure(one, unit->second.types[name.field], root.block)) continue;
      std::string label = label_of(name.owner, one);
      if (times[{name.owner, label}] == 1) name.label = std::move(label);
    }
    label_values_of_modules();
  }

  // A value of a module inside a unit is in the blocks of both. If the field of the unit has no
  // name, the module's field names the value.
  void label_values_of_modules() {
    using OwnedBlock = std::pair<std::string, std::uint32_t>;  // owner, block
    std::map<OwnedBlock, std::set<std::string>> labels;
    for (const ImageRoot& root : image_.roots) {
      const RootName& name = image_.root_names[root.name];
      const BlockType& type = image_.types[image_.type(root.block)];
      if (name.label.empty() || !type.name.starts_with("module ")) continue;
      for (std::uint64_t edge = image_.edges.first[root.block];
           edge < image_.edges.first[root.block + 1]; ++edge) {
        const std::uint8_t field = image_.fields[edge];
        if (field >= type.labels.size() || field == HeapImage::kFarField) continue;
        labels[{name.owner, image_.edges.to[edge]}].insert(name.label + "." + type.labels[field]);
      }
    }
    for (const ImageRoot& root : image_.roots) {
      RootName& name = image_.root_names[root.name];
      if (name.kind != RootKind::kGlobal || !name.label.empty()) continue;
      const auto found = labels.find({name.owner, root.block});
      if (found == labels.end() || found->second.size() != 1) continue;
      name.label = *found->second.begin();
      found->second.clear();  // names only one field
    }
  }

  void begin_at_roots(UnitField::Sure sure) {
    for (const ImageRoot& root : image_.roots) {
      const RootName& name = image_.root_names[root.name];
      if (name.kind != RootKind::kGlobal) continue;
      const auto unit = units_.find(name.owner);
      if (unit == units_.end() || name.field >= unit->second.fields.size()) continue;
      if (unit->second.fields[name.field].sure != sure) continue;
      meet(root.block, unit->second.types[name.field]);
    }
  }

  // Blocks that a module reaches already have their type.
  void begin_at_sites(SiteTypes& sites, bool strings) {
    std::vector<std::pair<std::uint32_t, TypeId>> begun;
    for (const SampledBlock& sampled : image_.sampled) {
      if (sampled.block == HeapImage::kNoBlock || is_string(sampled.block) != strings) continue;
      const auto [type, is_unfit] = sites.of(sampled);
      if (is_unfit) ++image_.types_found.sites_unfit;
      if (type == SourceTypes::kUnknown) continue;
      const std::uint32_t given = image_.type(sampled.block);
      if (given == 0) {
        ++image_.types_found.by_site;
        begun.emplace_back(sampled.block, type);
      } else if (are_two(sampled.block, given, number_of(*find_kind(sampled.block, type), type))) {
        ++image_.types_found.sites_disagreed;
      }
    }
    for (const auto& [block, type] : begun) meet(block, type);
  }

  void spread_all() {
    spread();
    while (!later_.empty()) {
      for (const auto& [block, type] : std::exchange(later_, {})) give(block, type);
      spread();
    }
  }

  void spread() {
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      const std::uint32_t block = queue_[i];
      const BlockKind& kind = *kinds_[image_.type(block)];
      for (std::uint64_t edge = image_.edges.first[block]; edge < image_.edges.first[block + 1];
           ++edge) {
        const std::uint8_t field = image_.fields[edge];
        const bool is_known = field < kind.types.size() && field != HeapImage::kFarField;
        meet(image_.edges.to[edge], is_known ? kind.types[field] : kind.every);
      }
    }
    queue_.clear();
  }

  void meet(std::uint32_t block, TypeId type) {
    if (type == SourceTypes::kUnknown) return;
    if (types_.is_vague(type)) {
      later_.emplace_back(block, type);
    } else {
      give(block, type);
    }
  }

  void give(std::uint32_t block, TypeId type) {
    BlockKind* kind = find_kind(block, type);
    for (int n = 0; kind == nullptr && types_.is_lazy(type) && n < 8; ++n) {
      type = types_.instead_of(type);  // a forced lazy is its value
      if (type == SourceTypes::kUnknown) return;
      kind = find_kind(block, type);
    }
    if (kind == nullptr) {
      ++image_.types_found.disagreed;
      return;
    }
    const std::uint32_t number = number_of(*kind, type);
    const std::uint32_t given = image_.type(block);
    if (given == 0) {
      set_type(block, number);
      queue_.push_back(block);
    } else if (given != number) {
      disagree(block, given, number);
    }
  }

  // A closure of several functions is one block.
  void disagree(std::uint32_t block, std::uint32_t given, std::uint32_t number) {
    if (image_.types[given].is_function && image_.types[number].is_function) {
      set_type(block, any_function());
    } else if (are_two(block, given, number)) {
      ++image_.types_found.disagreed;
    }
  }
  bool is_string(std::uint32_t block) const { return image_.shape(block).tag == kStringTag; }
  // True if the block cannot have both types.
  bool are_two(std::uint32_t block, std::uint32_t given, std::uint32_t number) const {
    if (given == number || is_vague_[given] || is_vague_[number]) return false;
    if (is_string(block)) return false;  // bytes
    if (image_.types[given].is_function && image_.types[number].is_function) return false;
    // A module alias: module Again = Table
    return !(kinds_[given]->has_other_names && kinds_[number]->has_other_names);
  }
  std::uint32_t any_function() {
    if (any_function_.number == 0) number_of(any_function_, SourceTypes::kUnknown);
    return any_function_.number;
  }

  BlockKind* find_kind(std::uint32_t block, TypeId type) {
    return memprofd::find_kind(image_, types_, block, type);
  }

  std::uint32_t number_of(BlockKind& kind, TypeId type) {
    if (kind.number != 0) return kind.number;
    kind.number = static_cast<std::uint32_t>(image_.types.size());
    const bool has_size = kind.fields != BlockKind::kAnySize;
    image_.types.push_back({.name = valid_utf8(kind.name),
                            .is_array = kind.is_array,
                            .is_function = kind.is_function,
                            .fields = has_size ? kind.fields : 0});
    for (const std::string& label : kind.labels) {
      image_.types.back().labels.push_back(valid_utf8(label));
    }
    kinds_.push_back(&kind);
    is_vague_.push_back(types_.is_vague(type));
    return kind.number;
  }

  HeapImage& image_;
  SourceModules modules_;
  SourceTypes types_;
  absl::flat_hash_map<std::string, UnitTypes> units_;
  absl::flat_hash_map<std::string, bool> missing_;
  std::vector<const BlockKind*> kinds_;  // by type number of the image
  std::vector<bool> is_vague_{true};     // likewise
  BlockKind any_function_{.is_function = true};
  // Indexed by type: the last shapes without and with it.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> last_;
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> typed_shapes_;
  std::vector<std::uint32_t> queue_;
  std::vector<std::pair<std::uint32_t, TypeId>> later_;
};

}  // namespace

void assign_types(HeapImage& image, const FindUnit& find, std::size_t most_items) {
  TypeAssigner(image, find, most_items).run();
}

}  // namespace memprofd
