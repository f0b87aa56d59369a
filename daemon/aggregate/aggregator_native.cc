// SPDX-License-Identifier: Apache-2.0
// The native heap: its own sessions, blocks and numbers.
#include <utility>

#include "daemon/aggregate/aggregator.h"

namespace memprofd {
namespace {

// Numbers of native blocks, which differ from those of OCaml's blocks.
SampleId native_sample(std::uint64_t number) { return SampleId(number | std::uint64_t{1} << 63); }

std::uint64_t words_of(const TrackedNativeBlock& block) { return (block.bytes + 7) / 8; }

SampleEvent alloc_event(const TrackedNativeBlock& block, ClassId alloc_class) {
  const std::uint64_t words = words_of(block);
  return {.record = {.time_ns = block.time_ns,
                     .sample_id = native_sample(block.number).value(),
                     .size_words = words,
                     .n_samples = block.n_samples,
                     .origin = MEMPROF_ORIGIN(block.thread, Source::kMalloc, MEMPROF_ALLOC_MAJOR)},
          .alloc_class = alloc_class,
          .bytes_short = static_cast<std::uint8_t>(8 * words - block.bytes),
          .alloc_time_ns = block.time_ns};
}

// thread: 0 if no thread was seen freeing the block.
memprof_record free_record(std::uint64_t number, std::uint64_t time_ns, std::uint32_t thread) {
  return {.time_ns = time_ns,
          .sample_id = native_sample(number).value(),
          .origin = MEMPROF_ORIGIN(thread, Source::kMalloc, MEMPROF_DEALLOC_MAJOR)};
}

}  // namespace

void Aggregator::begin_native_session(double rate) {
  forget_native_blocks();
  close(native_session_);
  native_session_.set_rate(rate);
}

void Aggregator::forget_native_blocks() {
  if (residence_.clear()) {
    for (Counters& counters : by_class_) counters.resident = {};
  }
  if (native_session_.live == 0) return;
  settle();
  drops_.add(Drop::kFollowSessionEnd, native_session_.live);
  live_.erase_if([&](const LiveSample& sample) {
    if (of_c(sample)) forget_block(sample);
    return of_c(sample);
  });
}

// The domain is unknown, and no minor collection can free the block.
SampleEvent Aggregator::native_alloc(const TrackedNativeBlock& block, CallstackId callstack) {
  advance_clock_to(block.time_ns);
  const ClassId id = intern({.callstack = callstack,
                             .thread = block.thread,
                             .domain = AllocClass::kAnyDomain,
                             .size = SizeBucket::of(words_of(block)),
                             .heap = Heap::kMajor,
                             .source = Source::kMalloc});
  const SampleEvent event = alloc_event(block, id);
  if (id == ClassId()) return event;
  const std::uint64_t n = classes_.get(id).counted(block.n_samples);
  Tally& tally = native_session_.tallies.cell(id);
  tally.allocated += n;
  const LiveSample sample(block.time_ns, block.n_samples, id, Heap::kMajor, LiveSample::kCSession);
  if (follow(native_sample(block.number), sample, n, tally) == LiveSet::Inserted::kYes) {
    residence_.add({block.number, block.address, block.bytes});
  }
  return event;
}

std::optional<SampleEvent> Aggregator::native_free(std::uint64_t number, std::uint64_t time_ns,
                                                   std::uint32_t thread) {
  advance_clock_to(time_ns);
  const memprof_record freed = free_record(number, time_ns, thread);
  const auto sample = live_.take(native_sample(number));
  if (sample) return end_native_block(number, *sample, freed);
  if (residence_.was_missed(number)) return std::nullopt;
  drops_.add(Drop::kFollowUnknownSample);
  return SampleEvent{.record = freed};
}

SampleEvent Aggregator::end_native_block(std::uint64_t number, const LiveSample& sample,
                                         const memprof_record& freed) {
  const std::uint64_t n = die(sample, Heap::kMajor, freed.time_ns);
  const auto share = residence_.take(number);
  if (share)
    counters_of(sample.alloc_class()).resident.subtract(n, resident_weight(sample, *share));
  return event_of(freed, sample);
}

// Weight of a share of the block.
SampleWeight Aggregator::resident_weight(const LiveSample& sample, float share) const {
  const double part = share;
  const SampleWeight each = native_session_.weight_of(classes_.get(sample.alloc_class()));
  return {each.words * part, each.variance_words2 * part * part,
          each.skew_words3 * part * part * part};
}

std::vector<SampleEvent> Aggregator::note_native_blocks(const ResidencyScan& scan) {
  for (const BlockResidency& found : scan) {
    const auto sample = live_.find(native_sample(found.number));
    if (!sample || found.gone) continue;
    const std::uint64_t n = classes_.get(sample->alloc_class()).counted(sample->n_samples());
    Estimate& resident = counters_of(sample->alloc_class()).resident;
    const auto before = residence_.note(found.number, found.share);
    if (before) resident.subtract(n, resident_weight(*sample, *before));
    resident.add(n, resident_weight(*sample, found.share));
  }
  std::vector<SampleEvent> ends;
  for (const std::uint64_t number : residence_.missed(scan)) {
    const auto sample = live_.take(native_sample(number));
    if (!sample) continue;
    drops_.add(Drop::kFollowNativeFreeMissed);
    ends.push_back(end_native_block(number, *sample, free_record(number, now_ns_, 0)));
  }
  return ends;
}

}  // namespace memprofd
