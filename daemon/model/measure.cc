// SPDX-License-Identifier: Apache-2.0
#include "daemon/model/measure.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

constexpr std::array kMeasures = std::to_array<MeasureRow>({
    {Measure::kLive, pb::MEASURE_LIVE, "live", "live", "LIVE", 'l', "live bytes",
     "Not deallocated at the end of the range", Blocks::kLive, Unit::kBytes},
    {Measure::kAllocated, pb::MEASURE_ALLOCATED, "allocated", "allocated", "ALLOCATED", 'a',
     "allocated bytes", "In the range", Blocks::kAllocated, Unit::kBytes},
    {Measure::kPromoted, pb::MEASURE_PROMOTED, "promoted", "promoted", "PROMOTED", 'p',
     "promoted bytes", "Survived a minor collection", Blocks::kPromoted, Unit::kBytes},
    {Measure::kDiedYoung, pb::MEASURE_DIED_YOUNG, "died-young", "died young", "DIED YOUNG", 'y',
     "died young", "Deallocated in the minor heap", Blocks::kDiedYoung, Unit::kBytes},
    {Measure::kDiedOld, pb::MEASURE_DIED_OLD, "died-old", "died old", "DIED OLD", 'o', "died old",
     "Deallocated in the major heap", Blocks::kDiedOld, Unit::kBytes},
    {Measure::kLifetime, pb::MEASURE_LIFETIME, "lifetime", "lifetime", "P50 (ALIVE)", 't',
     "median lifetime", "Half of the memory lives at most this long, living memory included",
     Blocks::kDied, Unit::kSeconds},
    {Measure::kSamples, pb::MEASURE_SAMPLES, "samples", "samples", "SAMPLES", 's', "samples",
     "Samples of allocation", Blocks::kAllocated, Unit::kSamples},
    {Measure::kLiveObjects, pb::MEASURE_LIVE_OBJECTS, "live-objects", "live objects", "LIVE BLOCKS",
     'b', "live blocks", "Blocks not deallocated at the end of the range", Blocks::kLive,
     Unit::kBlocks},
    {Measure::kAllocatedObjects, pb::MEASURE_ALLOCATED_OBJECTS, "allocated-objects",
     "allocated objects", "BLOCKS", 'n', "allocated blocks", "Blocks allocated in the range",
     Blocks::kAllocated, Unit::kBlocks},
});

// A compile error names the value without a row, or with a row in the wrong place.
constexpr bool measures_are_in_order() {
  for (std::size_t i = 0; i < kMeasures.size(); ++i) {
    if (kMeasures[i].measure != static_cast<Measure>(i)) return false;
  }
  return true;
}
constexpr bool has_measure(int order) {
  return std::count_if(kMeasures.begin(), kMeasures.end(),
                       [&](const MeasureRow& row) { return row.proto == order; }) == 1;
}
constexpr bool all_measures_have_rows() {
  for (int order = pb::Measure_MIN + 1; order <= pb::Measure_MAX; ++order) {
    if (!has_measure(order)) return false;
  }
  return true;
}
// Counters contain only the number of these blocks.
constexpr bool blocks_are_counted() {
  return std::all_of(kMeasures.begin(), kMeasures.end(), [](const MeasureRow& row) {
    return row.unit != Unit::kBlocks || row.blocks == Blocks::kAllocated ||
           row.blocks == Blocks::kLive;
  });
}
static_assert(measures_are_in_order(), "rows of kMeasures are in the order of Measure");
static_assert(all_measures_have_rows(), "each value of Measure has one row in kMeasures");
static_assert(blocks_are_counted(), "only allocated and live blocks are counted by number");

}  // namespace

std::span<const char* const> estimate_fields(Blocks blocks) {
  static constexpr const char* kAllocated[] = {"allocated"};
  static constexpr const char* kPromoted[] = {"promoted"};
  static constexpr const char* kLive[] = {"live"};
  static constexpr const char* kDied[] = {"died_young", "died_old"};
  switch (blocks) {
    case Blocks::kAllocated:
      return kAllocated;
    case Blocks::kPromoted:
      return kPromoted;
    case Blocks::kLive:
      return kLive;
    case Blocks::kDiedYoung:
      return std::span(kDied).first(1);
    case Blocks::kDiedOld:
      return std::span(kDied).last(1);
    case Blocks::kDied:
      break;
  }
  return kDied;
}

std::string MeasureRow::api_word() const {
  std::string name(word);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string MeasureRow::label() const {
  std::string text(title);
  text[0] = absl::ascii_toupper(static_cast<unsigned char>(text[0]));
  return text;
}

std::span<const MeasureRow> measures() { return kMeasures; }

const MeasureRow& measure_row(Measure measure) {
  return kMeasures[static_cast<std::size_t>(measure)];
}

const MeasureRow* find_measure(pb::Measure order) {
  if (order == pb::MEASURE_UNSPECIFIED) return &measure_row(Measure::kLive);
  const auto row = std::find_if(kMeasures.begin(), kMeasures.end(),
                                [&](const MeasureRow& one) { return one.proto == order; });
  return row == kMeasures.end() ? nullptr : &*row;
}

const MeasureRow& measure_row(pb::Measure order) {
  const MeasureRow* row = find_measure(order);
  return row == nullptr ? measure_row(Measure::kLive) : *row;
}

}  // namespace memprofd
