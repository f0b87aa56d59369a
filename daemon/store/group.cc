#include "daemon/store/group.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace memprofd {
namespace {

constexpr double kNsPerSecond = 1e9;

const Estimate* estimate_of(const Counters& counters, Measure measure) {
  switch (measure) {
    case Measure::kLive:
      return &counters.live;
    case Measure::kAllocated:
    case Measure::kSamples:
      return &counters.allocated;
    case Measure::kPromoted:
      return &counters.promoted;
    case Measure::kDiedYoung:
      return &counters.deallocated[static_cast<int>(Heap::kMinor)];
    case Measure::kDiedOld:
      return &counters.deallocated[static_cast<int>(Heap::kMajor)];
    case Measure::kLifetime:
    case Measure::kAllocatedObjects:
    case Measure::kLiveObjects:
      break;
  }
  return nullptr;
}

// All blocks of a class have one size, so that objects are words by a factor.
double objects_variance(const Estimate& estimate, double objects) {
  if (estimate.words <= 0) return 0;
  const double per_word = objects / estimate.words;
  return estimate.variance_words2 * per_word * per_word;
}

auto tie(const Location& location) {
  return std::tie(location.function, location.file, location.line, location.start_column,
                  location.end_column, location.module);
}

}  // namespace

std::strong_ordering operator<=>(const GroupName& a, const GroupName& b) {
  const auto head = [](const GroupName& name) {
    return std::tuple_cat(tie(name.location), std::tie(name.unit, name.thread, name.domain));
  };
  if (const auto order = head(a) <=> head(b); order != 0) return order;
  return std::lexicographical_compare_three_way(
      a.path.begin(), a.path.end(), b.path.begin(), b.path.end(), [](const auto& x, const auto& y) {
        return x == y ? std::strong_ordering::equal : tie(*x) <=> tie(*y);
      });
}

void GroupCounts::add_class(const Counters& added) {
  counters += added;
  allocated_objects_variance += objects_variance(added.allocated, added.allocated_objects);
  live_objects_variance += objects_variance(added.live, added.live_objects);
}

void Group::set_callstack(VisibleFrames& frames) {
  callstack.clear();
  if (path.empty() && heaviest != nullptr) callstack = frames.locations(*heaviest);
  for (const auto& location : path) callstack.push_back(*location);
}

double measure_value(const Counters& counters, Measure measure) {
  switch (measure) {
    case Measure::kSamples:
      return static_cast<double>(counters.allocated.samples);
    case Measure::kLifetime:
      return counters.deaths.empty() ? 0
                                     : counters.deaths.histogram().quantile_ns(0.5) / kNsPerSecond;
    case Measure::kAllocatedObjects:
      return counters.allocated_objects;
    case Measure::kLiveObjects:
      return counters.live_objects;
    default:
      return estimate_of(counters, measure)->bytes();
  }
}

double measure_stderr(const GroupCounts& counts, Measure measure) {
  switch (measure) {
    case Measure::kSamples:
      return std::sqrt(static_cast<double>(counts.counters.allocated.samples));
    case Measure::kLifetime:
      return 0;
    case Measure::kAllocatedObjects:
      return std::sqrt(counts.allocated_objects_variance);
    case Measure::kLiveObjects:
      return std::sqrt(counts.live_objects_variance);
    default:
      return estimate_of(counts.counters, measure)->stderr_bytes();
  }
}

}  // namespace memprofd
