// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/durations.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "daemon/util/status_macros.h"
#include "daemon/values/bucket_share.h"

namespace memprofd {
namespace {

// True if no interval of this lane was stopped with its token.
bool is_empty(const memprof_timer_cell& cell) { return cell.max_ticks == 0; }

}  // namespace

void Durations::add(const memprof_timer_histogram& lane) {
  sum_ticks_ += lane.sum_ticks;
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += lane.counts[i];
}

std::uint64_t Durations::count() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

Durations::Range Durations::range_of(std::uint32_t bucket) const {
  const auto seconds = [this](std::uint32_t of) {
    return static_cast<double>(memprof_values_bucket_ticks(of)) * ns_per_tick_ / 1e9;
  };
  const bool is_last = bucket + 1 == counts_.size();
  return {seconds(bucket), is_last ? std::numeric_limits<double>::infinity() : seconds(bucket + 1)};
}

std::vector<Durations::Bucket> Durations::buckets() const {
  std::vector<Bucket> buckets;
  for (std::uint32_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] != 0) buckets.push_back({range_of(i), counts_[i]});
  }
  return buckets;
}

std::optional<Durations::Range> Durations::quantile(double share) const {
  const auto bucket = bucket_of_share(counts_, share);
  if (!bucket) return std::nullopt;
  Range range = range_of(static_cast<std::uint32_t>(*bucket));
  if (longest_ticks_ > 0) range.high_seconds = std::min(range.high_seconds, longest_seconds());
  return range;
}

double Durations::longest_seconds() const {
  const auto last = std::find_if(counts_.rbegin(), counts_.rend(), [](auto n) { return n != 0; });
  if (last == counts_.rend()) return 0;
  const auto bucket = static_cast<std::uint32_t>(counts_.rend() - last - 1);
  return std::max(range_of(bucket).low_seconds,
                  static_cast<double>(longest_ticks_) * ns_per_tick_ / 1e9);
}

std::uint64_t Durations::not_above(double seconds) const {
  std::uint64_t count = 0;
  for (std::uint32_t i = 0; i < counts_.size(); ++i) {
    const Range range = range_of(i);
    if ((range.low_seconds + range.high_seconds) / 2 > seconds) break;
    count += counts_[i];
  }
  return count;
}

Durations Durations::since(const Durations& before) const {
  Durations rest = *this;
  rest.sum_ticks_ -= before.sum_ticks_;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    rest.counts_[i] -= std::min(before.counts_[i], counts_[i]);
  }
  return rest;
}

absl::Status TimerDurations::add_lane(const MemoryReader& memory, std::uint64_t address,
                                      std::span<const memprof_timer_cell> cells) {
  std::vector<memprof_timer_histogram> run;  // adjacent cells are read at once
  for (std::size_t begin = 0; begin < cells.size(); begin += std::max<std::size_t>(run.size(), 1)) {
    std::size_t end = begin;
    while (end < cells.size() && !is_empty(cells[end])) ++end;
    run.resize(end - begin);
    if (run.empty()) continue;
    RETURN_IF_ERROR(memory.read(address + begin * sizeof(memprof_timer_histogram),
                                std::as_writable_bytes(std::span(run))));
    for (std::size_t i = 0; i < run.size(); ++i) {
      Durations& durations = by_cell_[static_cast<std::uint32_t>(begin + i)];
      durations.add(run[i]);
      durations.note_longest(cells[begin + i].max_ticks);
    }
  }
  return absl::OkStatus();
}

DurationsPtr TimerDurations::of(std::uint32_t cell, double ns_per_tick) const {
  const auto found = by_cell_.find(cell);
  if (found == by_cell_.end()) return nullptr;
  auto durations = std::make_shared<Durations>(found->second);
  durations->set_ns_per_tick(ns_per_tick);
  return durations;
}

}  // namespace memprofd
