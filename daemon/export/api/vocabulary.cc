// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/vocabulary.h"

#include <string>

#include "daemon/export/formats/profile_formats.h"
#include "daemon/model/group_key.h"
#include "daemon/model/measure.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

const char* unit_name(Unit unit) {
  switch (unit) {
    case Unit::kBytes:
      return "bytes";
    case Unit::kBlocks:
      return "blocks";
    case Unit::kSamples:
      return "samples";
    case Unit::kSeconds:
      break;
  }
  return "seconds";
}

void fill(const MeasureRow& row, pb::MeasureInfo& out) {
  out.set_name(row.api_word());
  out.set_label(row.label());
  out.set_meaning(std::string(row.meaning));
  out.set_unit(unit_name(row.unit));
  out.set_is_flow(row.is_flow());
  out.set_needs_followed_blocks(row.needs_followed_blocks());
  if (row.unit != Unit::kBytes) return;
  for (const char* field : estimate_fields(row.blocks)) out.add_estimates(field);
}

void fill(const GroupRow& row, pb::GroupKeyInfo& out) {
  out.set_name(std::string(row.word));
  out.set_label(std::string(row.title));
  out.set_plural(std::string(row.plural));
  const SiteParts& parts = row.parts;
  if (parts.function) out.add_parts("function");
  if (parts.file) out.add_parts("file");
  if (parts.line) out.add_parts("line");
  if (parts.unit) out.add_parts("module");
  if (parts.library) out.add_parts("library");
  out.set_whole_callstack(row.whole_callstack);
  out.set_number_field(row.number.site_field);
  for (const char* field : row.number.filter_fields) {
    if (field != nullptr) out.add_filter_fields(field);
  }
  out.set_nothing(std::string(row.nothing));
  for (const std::string_view pattern : row.patterns) {
    if (!pattern.empty()) out.add_patterns(std::string(pattern));
  }
  out.set_patterns_need(std::string(row.patterns_need));
  if (row.below) out.set_below(std::string(group_row(*row.below).word));
}

}  // namespace

pb::Vocabulary vocabulary() {
  pb::Vocabulary out;
  for (const MeasureRow& row : measures()) fill(row, *out.add_measures());
  for (const GroupRow& row : group_keys()) fill(row, *out.add_group_keys());
  for (const ProfileFormatRow& row : profile_formats()) {
    if (*row.label == '\0') continue;
    pb::FormatInfo& format = *out.add_formats();
    format.set_name(row.word);
    format.set_label(row.label);
  }
  return out;
}

}  // namespace memprofd
