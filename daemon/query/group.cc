// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/group.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "daemon/aggregate/survival_curve.h"
#include "daemon/util/clock.h"

namespace memprofd {
namespace {

constexpr int kYoung = static_cast<int>(Heap::kMinor), kOld = static_cast<int>(Heap::kMajor);

auto tie(const Location& location) {
  return std::tie(location.function, location.file, location.line, location.start_column,
                  location.end_column, location.library);
}

}  // namespace

std::strong_ordering operator<=>(const GroupName& a, const GroupName& b) {
  const auto head = [](const GroupName& name) {
    return std::tuple_cat(tie(name.location), std::tie(name.unit, name.number));
  };
  if (const auto order = head(a) <=> head(b); order != 0) return order;
  return std::lexicographical_compare_three_way(
      a.path.begin(), a.path.end(), b.path.begin(), b.path.end(), [](const auto& x, const auto& y) {
        return x == y ? std::strong_ordering::equal : tie(*x) <=> tie(*y);
      });
}

// The number of objects is proportional to the words, so moments scale with powers of their ratio.
void BlockMoments::add(const AllocClass& of, const Estimate& estimate, double objects) {
  if (estimate.words <= 0) return;
  if (objects <= 0) {
    unsized += estimate;
    return;
  }
  const double smallest = of.smallest_block_words(), largest = of.largest_block_words();
  fewest += (estimate.words - estimate.divided_less_words) / largest;
  const double most_here = (estimate.words + estimate.divided_more_words) / smallest;
  most += most_here;
  most_to_middle = std::max(most_to_middle, most_here / objects);
  smallest_words = std::min(smallest_words, smallest);
  largest_words = std::max(largest_words, largest);
  const double per_word = objects / estimate.words;
  variance += estimate.variance_words2 * per_word * per_word;
  skew += estimate.skew_words3 * per_word * per_word * per_word;
}

// If all seen blocks have about the same size, assumes it for unseen blocks too. If sizes differ or
// are unknown, or if nothing was seen, assumes the smallest size, so that few unseen words may be
// many blocks.
Limits BlockMoments::limits(double objects, double words, double unseen_words) const {
  if (objects <= 0 && unsized.words > 0) return {};  // unknown number: no limits are shown
  constexpr double kOneSize = 2;                     // maximum ratio of the largest to the smallest
  const bool has_one_size = largest_words > 0 && largest_words <= kOneSize * smallest_words;
  const double unseen_block = has_one_size ? words / objects : kSmallestBlockWords;
  Limits limits = limits_of(objects, variance, skew, unseen_words / unseen_block);
  if (objects > 0) {
    limits.lower = std::max(0.0, limits.lower - std::max(0.0, objects - fewest));
    limits.upper = std::max(objects, most) + (limits.upper - objects) * most_to_middle;
  }
  if (unsized.words > 0) {
    limits.upper +=
        unsized.limits_bytes(unsized.grain()).upper / kBytesPerWord / kSmallestBlockWords;
  }
  return limits;
}

void GroupCounts::add_class(const AllocClass& of, const Counters& added) {
  counters += added;
  allocated_objects.add(of, added.allocated, added.allocated_objects);
  live_objects.add(of, added.live, added.live_objects);
}

void Group::set_callstack(VisibleFrames& frames) {
  callstack.clear();
  if (path.empty() && heaviest != nullptr) callstack = frames.locations(*heaviest);
  for (const auto& location : path) callstack.push_back(*location);
}

Estimate estimate_of(const Counters& counters, Blocks blocks) {
  switch (blocks) {
    case Blocks::kAllocated:
      return counters.allocated;
    case Blocks::kPromoted:
      return counters.promoted;
    case Blocks::kLive:
      return counters.live;
    case Blocks::kDiedYoung:
      return counters.deallocated[kYoung];
    case Blocks::kDiedOld:
      return counters.deallocated[kOld];
    case Blocks::kDied:
      break;
  }
  Estimate died = counters.deallocated[kYoung];
  return died += counters.deallocated[kOld];
}

double measure_value(const Counters& counters, Measure measure) {
  const MeasureRow& row = measure_row(measure);
  switch (row.unit) {
    case Unit::kBytes:
      return estimate_of(counters, row.blocks).bytes();
    case Unit::kBlocks:
      return row.blocks == Blocks::kLive ? counters.live_objects : counters.allocated_objects;
    case Unit::kSamples:
      return static_cast<double>(estimate_of(counters, row.blocks).samples);
    case Unit::kSeconds:
      break;
  }
  return median_at_least_ns(counters) / kNsPerSecond;
}

double measure_stderr(const GroupCounts& counts, Measure measure) {
  const MeasureRow& row = measure_row(measure);
  switch (row.unit) {
    case Unit::kBytes:
      return estimate_of(counts.counters, row.blocks).stderr_bytes();
    case Unit::kBlocks:
      return std::sqrt(row.blocks == Blocks::kLive ? counts.live_objects.variance
                                                   : counts.allocated_objects.variance);
    case Unit::kSamples:
      return std::sqrt(measure_value(counts.counters, measure));
    case Unit::kSeconds:
      break;
  }
  return 0;
}

Limits measure_limits(const GroupCounts& counts, Measure measure) {
  const MeasureRow& row = measure_row(measure);
  const Estimate estimate = estimate_of(counts.counters, row.blocks);
  const double unseen = counts.unseen.of(row.blocks);
  const double missing = counts.unseen.missing;
  switch (row.unit) {
    case Unit::kBytes:
      return estimate.limits_bytes(unseen, missing);
    case Unit::kBlocks: {
      const BlockMoments& moments =
          row.blocks == Blocks::kLive ? counts.live_objects : counts.allocated_objects;
      Limits limits = moments.limits(measure_value(counts.counters, measure),
                                     estimate.words - moments.unsized.words, unseen);
      if (limits.upper > 0) limits.upper += missing / kSmallestBlockWords;
      return limits;
    }
    case Unit::kSamples:
      return count_limits(static_cast<double>(estimate.samples));
    case Unit::kSeconds:
      break;
  }
  return {};
}

}  // namespace memprofd
