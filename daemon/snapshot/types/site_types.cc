// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/site_types.h"

#include <set>
#include <vector>

#include "daemon/model/location.h"
#include "daemon/snapshot/types/block_fit.h"

namespace memprofd {
namespace {

const Location* place_of_site(const HeapImage& image, const SampledBlock& sampled) {
  const auto& frames = image.sites[sampled.site];
  if (sampled.block == HeapImage::kNoBlock || frames.empty()) return nullptr;
  const Location& place = image.locations[frames[0]];
  return place.line != 0 && !place.file.empty() ? &place : nullptr;
}

SourceRange key_of(const Location& place) {
  return {place.file, place.line, place.start_column, place.end_column};
}

}  // namespace

SiteTypes::SiteTypes(const HeapImage& image, SourceModules& modules, SourceTypes& types)
    : image_(image), types_(types) {
  std::map<std::string, ExpressionsAt> by_unit;
  for (const SampledBlock& sampled : image.sampled) {
    const Location* place = place_of_site(image, sampled);
    if (place == nullptr) continue;
    const std::string_view unit = compilation_unit(place->function, place->library);
    if (is_unit_name(unit)) by_unit[std::string(unit)].try_emplace(key_of(*place));
  }
  for (auto& [unit, places] : by_unit) {
    find_expressions(modules, unit, places);
    for (auto& [place, expressions] : places) {
      if (!expressions.empty()) found_.emplace(place, std::move(expressions));
    }
  }
}

SiteTypes::Answer SiteTypes::of(const SampledBlock& sampled) {
  const Location* place = place_of_site(image_, sampled);
  const auto found = place == nullptr ? found_.end() : found_.find(key_of(*place));
  if (found == found_.end()) return {};
  std::set<TypeId> made;
  for (const SourceExpression& one : found->second) {
    const TypeId type = types_.of_expression(one.type, one.scope);
    if (is_made(sampled.block, one.makes, type)) made.insert(type);
  }
  if (made.size() != 1) return {.is_unfit = true};
  return {.type = *made.begin()};
}

bool SiteTypes::is_made(std::uint32_t block, SourceExpression::Makes makes, TypeId type) {
  using Makes = SourceExpression::Makes;
  if (type == SourceTypes::kUnknown) return false;
  const BlockKind* kind = find_kind(image_, types_, block, type);
  // A type that is abstract even inside its own module may be anything.
  if (kind == nullptr || kind->tag == BlockKind::kAnyTag) return false;
  if (kind->is_function != (makes == Makes::kFunction)) return false;
  return makes != Makes::kCall || !may_be_part(block, type);
}

bool SiteTypes::may_be_part(std::uint32_t block, TypeId type) {
  std::set<TypeId> seen{type};
  std::vector<TypeId> open{type};
  while (!open.empty()) {
    const TypeId whole = open.back();
    open.pop_back();
    for (const BlockKind& kind : types_.kinds(whole)) {
      std::vector<TypeId> parts = kind.types;
      if (kind.fields == BlockKind::kAnySize && kind.is_array) parts.push_back(kind.every);
      for (const TypeId part : parts) {
        if (part == SourceTypes::kUnknown || seen.size() > kMaxParts) return true;
        if (!seen.insert(part).second) continue;
        if (find_kind(image_, types_, block, part) != nullptr) return true;
        open.push_back(part);
      }
    }
  }
  return false;
}

}  // namespace memprofd
