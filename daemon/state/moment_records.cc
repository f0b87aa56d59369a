// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/moment_records.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "daemon/state/info_records.h"
#include "daemon/state/window_records.h"

namespace memprofd {
namespace {

constexpr int kYoung = static_cast<int>(Heap::kMinor);
constexpr int kOld = static_cast<int>(Heap::kMajor);

void put_totals(const TargetCounters& totals, state::Moment& out) {
  for (const auto& of_heap : totals.allocated) {
    for (const Estimate& of_source : of_heap) put_estimate(of_source, *out.add_allocated());
  }
  put_estimate(totals.promoted, *out.mutable_promoted());
  put_estimate(totals.live, *out.mutable_live());
  for (const Estimate& of_heap : totals.deallocated) put_estimate(of_heap, *out.add_deallocated());
  out.set_alloc_events(totals.alloc_events);
  out.set_promote_events(totals.promote_events);
  out.set_dealloc_events(totals.dealloc_events);
  out.set_unsampled_words(totals.unsampled_words);
}

TargetCounters get_totals(const state::Moment& message) {
  TargetCounters totals;
  for (int i = 0; i < std::min(message.allocated_size(), kHeaps * kMemprofSources); ++i) {
    totals.allocated[i / kMemprofSources][i % kMemprofSources] = get_estimate(message.allocated(i));
  }
  totals.promoted = get_estimate(message.promoted());
  totals.live = get_estimate(message.live());
  for (int i = 0; i < std::min(message.deallocated_size(), kHeaps); ++i) {
    totals.deallocated[i] = get_estimate(message.deallocated(i));
  }
  totals.alloc_events = message.alloc_events();
  totals.promote_events = message.promote_events();
  totals.dealloc_events = message.dealloc_events();
  totals.unsampled_words = message.unsampled_words();
  return totals;
}

void put_drops(const DropCounters& drops, state::Moment& out) {
  for (int i = 0; i < kDrops; ++i) {
    const auto drop = static_cast<Drop>(i);
    if (drops.get(drop) == 0) continue;
    state::Drop& message = *out.add_drops();
    const DropName name = drop_name(drop);
    message.set_stage(std::string(name.stage));
    message.set_reason(std::string(name.reason));
    message.set_count(drops.get(drop));
  }
}

// Omits reasons that this memprofd does not have any more.
DropCounters get_drops(const state::Moment& message) {
  DropCounters drops;
  for (const state::Drop& stored : message.drops()) {
    for (int i = 0; i < kDrops; ++i) {
      const auto drop = static_cast<Drop>(i);
      const DropName name = drop_name(drop);
      if (stored.stage() == name.stage && stored.reason() == name.reason) {
        drops.add(drop, stored.count());
      }
    }
  }
  return drops;
}

void put_gc(const GcStats& gc, state::Gc& out) {
  out.set_minor_words(gc.minor_words);
  out.set_promoted_words(gc.promoted_words);
  out.set_major_words(gc.major_words);
  out.set_minor_collections(gc.minor_collections);
  out.set_major_collections(gc.major_collections);
  out.set_compactions(gc.compactions);
  out.set_heap_words(gc.heap_words);
  out.set_top_heap_words(gc.top_heap_words);
  out.set_heap_chunks(gc.heap_chunks);
  if (gc.free_words) out.set_free_words(*gc.free_words);
  out.set_minor_heap_words(gc.minor_heap_words);
  for (const memprof_pauses& pauses : gc.pauses) {
    state::Pauses& message = *out.add_pauses();
    message.set_sum_ns(pauses.sum_ns);
    for (const auto count : pauses.count) message.add_count(count);
  }
}

GcStats get_gc(const state::Gc& message) {
  GcStats gc{.valid = true,
             .minor_words = message.minor_words(),
             .promoted_words = message.promoted_words(),
             .major_words = message.major_words(),
             .minor_collections = message.minor_collections(),
             .major_collections = message.major_collections(),
             .compactions = message.compactions(),
             .heap_words = message.heap_words(),
             .top_heap_words = message.top_heap_words(),
             .heap_chunks = message.heap_chunks(),
             .minor_heap_words = message.minor_heap_words()};
  if (message.has_free_words()) gc.free_words = message.free_words();
  for (int i = 0; i < std::min<int>(message.pauses_size(), MEMPROF_GC_PHASES); ++i) {
    const state::Pauses& pauses = message.pauses(i);
    gc.pauses[i].sum_ns = pauses.sum_ns();
    for (int j = 0; j < std::min<int>(pauses.count_size(), MEMPROF_PAUSE_BUCKETS); ++j) {
      gc.pauses[i].count[j] = pauses.count(j);
    }
  }
  return gc;
}

void put_lives(const DeathCounts& lives, state::Lives& out) {
  for (const DeathCounts::Entry& entry : lives.entries()) {
    out.add_codes(entry.code);
    out.add_samples(entry.n);
    out.add_words(entry.words);
    out.add_squares(entry.squares);
  }
  out.set_sum_ns(lives.sum_ns());
}

DeathCounts get_lives(const state::Lives& message) {
  const int n = message.codes_size();
  if (message.samples_size() != n || message.words_size() != n || message.squares_size() != n) {
    return {};
  }
  std::vector<DeathCounts::Entry> entries;
  for (int i = 0; i < n; ++i) {
    const std::uint32_t code = message.codes(i);
    const bool in_order = i == 0 || code > message.codes(i - 1);
    if (code > 255 || (code & 0x7f) >= LifetimeHistogram::kBuckets || !in_order) return {};
    DeathCounts::Entry& entry = entries.emplace_back();
    entry.code = static_cast<std::uint8_t>(code);
    entry.n = message.samples(i) & ((std::uint64_t{1} << 56) - 1);
    entry.words = message.words(i);
    entry.squares = message.squares(i);
  }
  return DeathCounts::of(std::move(entries), message.sum_ns());
}

}  // namespace

std::string boot_id(const std::string& proc_root) {
  std::ifstream file(proc_root + "/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

void put_moment(const ProfileSnapshot& snapshot, state::Moment& out) {
  out.set_time_ns(snapshot.time_ns);
  out.set_attached_ns(snapshot.attached_ns);
  out.set_began_ns(snapshot.history.begin_ns);
  out.set_boot_id(boot_id());
  put_info(snapshot.info, *out.mutable_info());
  put_totals(snapshot.counters, out);
  put_drops(snapshot.drops, out);
  if (snapshot.gc.valid) put_gc(snapshot.gc, *out.mutable_gc());
  out.set_stacks_interned(snapshot.stacks_interned);
  out.set_live_blocks(snapshot.live_samples_tracked);
  if (snapshot.history.peak == nullptr) return;
  state::Peak& peak = *out.mutable_peak();
  peak.set_time_ns(snapshot.history.peak->time_ns);
  put_estimate(snapshot.history.peak->live, *peak.mutable_live());
  peak.set_gone_words(snapshot.history.peak->gone_words);
  peak.set_lower_bytes(snapshot.history.peak_limits.lower);
  peak.set_upper_bytes(snapshot.history.peak_limits.upper);
}

void get_moment(const state::Moment& message, ProfileSnapshot& out) {
  out.info = get_info(message.info());
  out.time_ns = message.time_ns();
  out.attached_ns = message.attached_ns();
  out.counters = get_totals(message);
  out.drops = get_drops(message);
  if (message.has_gc()) out.gc = get_gc(message.gc());
  out.stacks_interned = message.stacks_interned();
  out.live_samples_tracked = message.live_blocks();
  out.history.begin_ns = message.began_ns();
}

void put_counts(ClassId id, const Counters& counters, state::Counts& out) {
  out.set_class_id(id.value());
  put_estimate(counters.allocated, *out.mutable_allocated());
  if (counters.promoted.samples > 0) put_estimate(counters.promoted, *out.mutable_promoted());
  if (counters.live.samples > 0) put_estimate(counters.live, *out.mutable_live());
  const Estimate& young = counters.deallocated[kYoung];
  if (young.samples > 0) put_estimate(young, *out.mutable_died_young());
  const Estimate& old = counters.deallocated[kOld];
  if (old.samples > 0) put_estimate(old, *out.mutable_died_old());
  out.set_allocated_objects(counters.allocated_objects);
  out.set_live_objects(counters.live_objects);
  if (!counters.deaths.empty()) put_lives(counters.deaths, *out.mutable_deaths());
  if (!counters.forgotten.empty()) put_lives(counters.forgotten, *out.mutable_forgotten());
}

Counters get_counts(const state::Counts& message) {
  Counters counters;
  counters.allocated = get_estimate(message.allocated());
  counters.promoted = get_estimate(message.promoted());
  counters.live = get_estimate(message.live());
  counters.deallocated[kYoung] = get_estimate(message.died_young());
  counters.deallocated[kOld] = get_estimate(message.died_old());
  counters.allocated_objects = message.allocated_objects();
  counters.live_objects = message.live_objects();
  counters.deaths = get_lives(message.deaths());
  counters.forgotten = get_lives(message.forgotten());
  return counters;
}

void put_callstack(const Callstack& callstack, state::Callstack& out) {
  out.set_id(callstack.id.value());
  out.set_hash(callstack.hash.value());
  for (const std::uint64_t entry : callstack.entries) out.add_entries(entry);
  out.set_alloc_idx(callstack.alloc_idx);
  out.set_frames(callstack.n_frames);
  out.set_truncated(callstack.truncated);
  out.set_broken(callstack.broken);
}

Callstack get_callstack(const state::Callstack& message) {
  return {.id = CallstackId(message.id()),
          .hash = StackHash(message.hash()),
          .entries = {message.entries().begin(), message.entries().end()},
          .alloc_idx = message.alloc_idx(),
          .n_frames = message.frames(),
          .truncated = message.truncated(),
          .broken = message.broken()};
}

void put_class(ClassId id, const AllocClass& alloc_class, state::Class& out) {
  out.set_id(id.value());
  out.set_callstack(alloc_class.callstack.value());
  out.set_thread(alloc_class.thread);
  out.set_domain(alloc_class.domain);
  out.set_size(alloc_class.size.index());
  out.set_heap(static_cast<std::uint32_t>(alloc_class.heap));
  out.set_source(static_cast<std::uint32_t>(alloc_class.source));
  out.set_stands_for_log2(alloc_class.stands_for_log2);
}

AllocClass get_class(const state::Class& message) {
  return {.callstack = CallstackId(message.callstack()),
          .thread = message.thread(),
          .domain = static_cast<std::uint16_t>(message.domain()),
          .size = SizeBucket::from_index(static_cast<std::uint16_t>(message.size())),
          .heap = message.heap() == 1 ? Heap::kMajor : Heap::kMinor,
          .source = static_cast<Source>(message.source() < kSources ? message.source() : 0),
          .stands_for_log2 = static_cast<std::uint8_t>(message.stands_for_log2() & 31)};
}

void put_location(const Location& location, state::Location& out) {
  out.set_function(location.function);
  out.set_file(location.file);
  out.set_line(location.line);
  out.set_start_column(location.start_column);
  out.set_end_column(location.end_column);
  out.set_library(location.library);
}

Location get_location(const state::Location& message) {
  return {.function = message.function(),
          .file = message.file(),
          .line = message.line(),
          .start_column = message.start_column(),
          .end_column = message.end_column(),
          .library = message.library()};
}

}  // namespace memprofd
