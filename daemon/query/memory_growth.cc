// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/memory_growth.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "daemon/query/leak_evidence.h"

namespace memprofd {
namespace {

constexpr std::size_t kFloorSteps = 20;
constexpr double kHighestChance = 1e-4;
constexpr double kMinRise = 0.025;  // share of the growth that counts as a rise
constexpr int kFewestRises = 3;

double bytes_of(const MemoryParts& memory, MemoryArea area) {
  switch (area) {
    case MemoryArea::kHeap:
      return static_cast<double>(memory.heap_used);
    case MemoryArea::kNative:
      return static_cast<double>(memory.other_anonymous);
    case MemoryArea::kMapped:
      break;
  }
  return static_cast<double>(memory.files + memory.shared);
}

// A least-squares line.
struct Line {
  double per_second = 0;
  double scatter = 0;  // bytes, one standard deviation from the line
};

Line line_of(const std::vector<MemoryFloor>& floors) {
  const auto n = static_cast<double>(floors.size());
  const auto seconds = [&](const MemoryFloor& floor) {
    return static_cast<double>(floor.time_ns - floors.front().time_ns) / 1e9;
  };
  double t = 0, b = 0;
  for (const MemoryFloor& floor : floors) {
    t += seconds(floor) / n;
    b += floor.bytes / n;
  }
  double tt = 0, tb = 0, bb = 0;
  for (const MemoryFloor& floor : floors) {
    tt += (seconds(floor) - t) * (seconds(floor) - t);
    tb += (seconds(floor) - t) * (floor.bytes - b);
    bb += (floor.bytes - b) * (floor.bytes - b);
  }
  if (tt <= 0) return {};
  return {tb / tt, std::sqrt(std::max(0.0, bb - tb * tb / tt) / n)};
}

// Number of floors that exceed all earlier ones by a part of the growth.
int rises_of(const std::vector<MemoryFloor>& floors, double growth) {
  int rises = 0;
  double highest = floors.front().bytes;
  for (const MemoryFloor& floor : floors) {
    if (floor.bytes < highest + kMinRise * growth) continue;
    highest = floor.bytes;
    ++rises;
  }
  return rises;
}

bool continues(const std::vector<MemoryFloor>& floors) {
  const double middle = floors[floors.size() / 2].bytes;
  return floors.back().bytes - middle >= (middle - floors.front().bytes) / 2;
}

// The last time at which memory exceeded its initial value by at most a twentieth of the growth.
std::uint64_t risen_since(const std::vector<MemoryFloor>& floors, double growth) {
  std::uint64_t time_ns = floors.front().time_ns;
  for (const MemoryFloor& floor : floors) {
    if (floor.bytes <= floors.front().bytes + growth / 20) time_ns = floor.time_ns;
  }
  return time_ns;
}

}  // namespace

MemoryGrowth judge_floors(MemoryArea area, const std::vector<MemoryFloor>& floors) {
  MemoryGrowth result{.area = area, .moments = floors.size()};
  if (floors.empty()) return result;
  result.begin_bytes = floors.front().bytes;
  result.end_bytes = floors.back().bytes;
  if (floors.size() < kFewestFloors) return result;
  const Line line = line_of(floors);
  result.bytes_per_second = line.per_second;
  std::vector<double> bytes;
  bytes.reserve(floors.size());
  for (const MemoryFloor& floor : floors) bytes.push_back(floor.bytes);
  const double chance = chance_of_rise(bytes);
  result.confidence = 1 - chance;
  const double growth = result.end_bytes - result.begin_bytes;
  const double least = std::max(least_growth(result.begin_bytes), 2 * line.scatter);
  const double rise =
      line.per_second * static_cast<double>(floors.back().time_ns - floors.front().time_ns) / 1e9;
  result.grows = growth >= least && rise >= least_growth(result.begin_bytes) &&
                 chance <= kHighestChance && continues(floors) &&
                 rises_of(floors, growth) >= kFewestRises;
  if (result.grows) result.since_ns = risen_since(floors, growth);
  return result;
}

std::vector<MemoryGrowth> memory_growth(const HistoryView& history, const TimeRange& asked) {
  // Only the sum of earlier windows is known.
  const TimeRange range{std::max(asked.begin_ns, history.oldest_ns()), asked.end_ns};
  std::vector<MemoryFloor> floors[kMemoryAreas];
  std::optional<std::uint64_t> collections;
  const double step_ns = std::max(
      1.0, static_cast<double>(range.end_ns - range.begin_ns) / static_cast<double>(kFloorSteps));
  std::size_t steps[kMemoryAreas] = {};  // step of the last floor of each area
  const auto add = [&](int area, std::uint64_t time_ns, double bytes) {
    // The end of the range belongs to the last step: a step of one moment would have no floor.
    const auto step =
        std::min(kFloorSteps - 1,
                 static_cast<std::size_t>(
                     static_cast<double>(time_ns - std::min(time_ns, range.begin_ns)) / step_ns));
    if (floors[area].empty() || step != steps[area]) {
      floors[area].push_back({time_ns, bytes});
    } else if (bytes < floors[area].back().bytes) {
      floors[area].back() = {time_ns, bytes};
    }
    steps[area] = step;
  };
  for (const HistoryWindowPtr& window : history.finest(range.begin_ns, range.end_ns)) {
    const HistoryPoint& point = window->at_end();
    const bool has_collected = collections && point.major_collections > *collections;
    if (point.heap_words > 0) collections = point.major_collections;
    if (point.memory.resident() == 0) continue;
    for (int area = 0; area < kMemoryAreas; ++area) {
      const auto of = static_cast<MemoryArea>(area);
      if (of == MemoryArea::kHeap && !has_collected) continue;
      add(area, window->end_ns(), bytes_of(point.memory, of));
    }
  }
  std::vector<MemoryGrowth> result;
  for (int area = 0; area < kMemoryAreas; ++area) {
    if (floors[area].empty()) continue;
    result.push_back(judge_floors(static_cast<MemoryArea>(area), floors[area]));
  }
  return result;
}

}  // namespace memprofd
