// SPDX-License-Identifier: Apache-2.0
// An aggregator and its history with a simulated clock.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "daemon/aggregate/aggregator.h"
#include "daemon/history/history.h"
#include "daemon/history/snapshot.h"
#include "daemon/history/snapshot_counts.h"
#include "daemon/query/range.h"
#include "tests/kit/ring_events.h"

namespace memprofd {

inline constexpr std::uint64_t kSecond = 1'000'000'000;
inline constexpr std::uint64_t kStart = 1'700'000'000 * kSecond + kSecond / 3;

// Sums over all rows.
inline Counters sum(const RangeRows& rows) {
  Counters total;
  for (const ProfileRow& row : rows.rows) total += row.counters;
  return total;
}

// The clock starts at kStart. Callstack n has one frame, of address n.
class Recording {
 public:
  explicit Recording(const AggregatorLimits& limits = {}) : aggregator_(limits, drops_) {
    aggregator_.begin_session(rate_);
  }
  // Continues gap_ns after the end of another snapshot.
  Recording(const ProfileSnapshot& before, std::uint64_t gap_ns)
      : aggregator_({}, drops_), history_(before.history), now_(before.now_ns() + gap_ns) {
    CallstackTable callstacks;
    resume_from(before, aggregator_, callstacks);
    history_.close_window(
        now_, [&](const auto& use) { aggregator_.close_interval(use); }, point());
    symbolizer = before.symbolizer;
    aggregator_.begin_session(rate_);
  }

  std::uint64_t now() const { return now_; }
  void set_rate(double rate) { aggregator_.begin_session(rate_ = rate); }
  // The same, but followed blocks stay (OCaml 5).
  void resume_at(double rate) { aggregator_.begin_session(rate_ = rate, ++generation_, true); }
  // After lost records: drops all followed blocks.
  void start_over() { aggregator_.start_over(); }

  void alloc(std::uint64_t id, std::uint32_t callstack, std::uint32_t n_samples = 1,
             std::uint64_t words = 3, std::uint32_t thread = 7, std::uint16_t domain = 0) {
    memprof_record record = sample_record(now_, id, MEMPROF_ALLOC_MINOR, n_samples, thread);
    record.size_words = words;
    aggregator_.alloc(record, CallstackId(callstack), domain);
  }
  void observe(const ObservedHit& hit) { aggregator_.observe(hit); }
  void promote(std::uint64_t id) { aggregator_.promote(sample_record(now_, id, MEMPROF_PROMOTE)); }
  void die(std::uint64_t id, std::uint32_t kind = MEMPROF_DEALLOC_MINOR) {
    aggregator_.dealloc(sample_record(now_, id, kind));
  }
  // Native heap, with a rate of its own in samples per word.
  void begin_c(double rate) { aggregator_.begin_native_session(rate); }
  void native_alloc(std::uint64_t number, std::uint32_t callstack, std::uint32_t n_samples,
                    std::uint64_t bytes, std::uint32_t thread) {
    aggregator_.native_alloc({.number = number,
                              .time_ns = now_,
                              .address = 0x1000 * number,
                              .bytes = bytes,
                              .n_samples = n_samples,
                              .thread = thread},
                             CallstackId(callstack));
  }
  void native_free(std::uint64_t number, std::uint32_t thread) {
    aggregator_.native_free(number, now_, thread);
  }
  // Counts lost records and drops all followed blocks.
  void lose(std::uint64_t records = 1) {
    drops_.add(Drop::kFollowLostRecords, records);
    aggregator_.start_over();
  }
  // Ends a major collection. Without a call their number is unknown.
  void collect_major() { ++major_collections_; }
  void advance(std::uint64_t ns) {
    now_ += ns;
    aggregator_.advance_clock_to(now_);
    if (!history_.due(now_)) return;
    history_.close_window(
        now_, [&](const auto& use) { aggregator_.close_interval(use); }, point());
    const TargetCounters& totals = aggregator_.totals();
    history_.note_live(now_, totals.live, totals.gone_words(), aggregator_.by_class());
  }
  ProfileSnapshot snapshot() const {
    ProfileSnapshot result;
    result.live = aggregator_.live_by_session();
    const std::vector<AgeCounts> ages = ages_by_class(result.live, aggregator_.by_class().size());
    for (std::uint32_t id = 0; id < aggregator_.by_class().size(); ++id) {
      if (aggregator_.by_class()[id].allocated.samples == 0) continue;
      result.rows.push_back({ClassId(id), aggregator_.classes().get(ClassId(id)), callstack(id),
                             aggregator_.by_class()[id]});
      result.rows.back().counters.ages = ages[id];
    }
    result.counters = aggregator_.totals();
    result.drops = drops_;
    result.symbolizer = symbolizer;
    result.attached_ns = kStart;
    result.time_ns = now_;
    result.history = history_.view(
        now_, [&](const auto& use) { aggregator_.peek(use); }, point());
    return result;
  }

  // The symbolizer of the snapshots; null if no test needs names.
  std::shared_ptr<Symbolizer> symbolizer;

  History& history() { return history_; }
  const Aggregator& aggregator() const { return aggregator_; }

 private:
  HistoryPoint point() const {
    return {.live = aggregator_.totals().live,
            .heap_words = major_collections_ > 0 ? 1'000'000u : 0u,
            .major_collections = major_collections_,
            .dropped_events = drops_.lost(),
            .session = aggregator_.sessions(),
            .memory = {.heap_used = 6'000'000,
                       .heap_free = 2'000'000,
                       .minor_heaps = 2'097'152,
                       .other_anonymous = 5'000'000,
                       .files = 3'000'000,
                       .shared = 40'960,
                       .swapped = 8192}};
  }
  // Never freed, because snapshots may outlive this object.
  const Callstack* callstack(std::uint32_t of_class) const {
    static std::deque<Callstack> kept;
    const CallstackId id = aggregator_.classes().get(ClassId(of_class)).callstack;
    return &kept.emplace_back(
        Callstack{.id = id, .hash = StackHash(id.value()), .entries = {id.value()}});
  }

  DropCounters drops_;
  double rate_ = 0.01;
  std::uint32_t generation_ = 1;
  std::uint64_t major_collections_ = 0;
  Aggregator aggregator_;
  History history_{kStart};
  std::uint64_t now_ = kStart;
};

}  // namespace memprofd
