// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/event_stream.h"

#include <cmath>
#include <string>
#include <utility>

#include "daemon/export/api/query_convert.h"
#include "daemon/ingest/decoder.h"
#include "daemon/util/clock.h"

namespace memprofd {
namespace {

std::int64_t unix_offset_ns() {
  return static_cast<std::int64_t>(realtime_ns()) - static_cast<std::int64_t>(monotonic_ns());
}

// The numbers of OCaml's event kinds are those of memprof_agent_abi.h.
static_assert(static_cast<int>(pb::EVENT_KIND_ALLOC_MINOR) == MEMPROF_ALLOC_MINOR);
static_assert(static_cast<int>(pb::EVENT_KIND_ALLOC_MAJOR) == MEMPROF_ALLOC_MAJOR);
static_assert(static_cast<int>(pb::EVENT_KIND_PROMOTE) == MEMPROF_PROMOTE);
static_assert(static_cast<int>(pb::EVENT_KIND_DEALLOC_MINOR) == MEMPROF_DEALLOC_MINOR);
static_assert(static_cast<int>(pb::EVENT_KIND_DEALLOC_MAJOR) == MEMPROF_DEALLOC_MAJOR);

pb::EventKind kind_of(const SampleEvent& event) {
  if (!event.of_c()) return static_cast<pb::EventKind>(MEMPROF_ORIGIN_KIND(event.record.origin));
  return is_alloc(event.record) ? pb::EVENT_KIND_C_ALLOC : pb::EVENT_KIND_C_FREE;
}

bool is_dealloc(const SampleEvent& event) {
  return !is_alloc(event.record) && kind_of(event) != pb::EVENT_KIND_PROMOTE;
}

// Lifetime of a deallocated block, which must have been followed.
double lifetime_seconds(const SampleEvent& event) {
  const std::uint64_t died = event.record.time_ns;
  return died > event.alloc_time_ns ? static_cast<double>(died - event.alloc_time_ns) / 1e9 : 0;
}

// The heap and source of the event's block; nullopt if they are unknown.
std::optional<std::pair<HeapKind, Source>> where(const SampleEvent& event, const EventClass& of) {
  if (event.of_c()) return std::pair(HeapKind::kC, Source::kMalloc);
  if (is_alloc(event.record)) {
    const bool major = MEMPROF_ORIGIN_KIND(event.record.origin) == MEMPROF_ALLOC_MAJOR;
    const auto source = static_cast<Source>(MEMPROF_ORIGIN_SOURCE(event.record.origin));
    return std::pair(heap_kind_of(major ? Heap::kMajor : Heap::kMinor, source), source);
  }
  if (of.id == ClassId()) return std::nullopt;
  return std::pair(of.alloc_class.heap_kind(), of.alloc_class.source);
}

std::uint64_t size_words(const SampleEvent& event, const EventClass& of) {
  if (is_alloc(event.record)) return event.record.size_words;
  if (of.id == ClassId() || !of.alloc_class.size.is_known()) return 0;
  return static_cast<std::uint64_t>(std::llround(of.alloc_class.size.middle_words()));
}

// Fills in the block's properties from the event, and those of its class if that is known.
void fill_block(const SampleEvent& event, const EventClass& alloc_class, pb::SampleEvent& out) {
  const AllocClass& block = alloc_class.alloc_class;
  out.set_size_words(size_words(event, alloc_class));
  if (event.of_c()) out.set_size_bytes(8 * out.size_words() - event.bytes_short);
  if (const auto known = where(event, alloc_class)) {
    out.set_heap(to_proto(known->first));
    out.set_source(to_proto(known->second));
  }
  if (alloc_class.id != ClassId() && !event.of_c()) out.set_domain(block.domain);
  out.set_callstack_id(block.callstack.value());
}

// Native blocks have the highest bit of their number set. Other blocks do not, because clients that
// read numbers as floating-point numbers would lose precision.
std::uint64_t block_number(const SampleEvent& event) {
  return event.of_c() ? event.record.sample_id << 1 >> 1 : event.record.sample_id;
}

}  // namespace

EventStream::EventStream(EventQuery query, std::shared_ptr<Symbolizer> symbolizer,
                         EventStreamLimits limits)
    : query_(std::move(query)),
      symbolizer_(std::move(symbolizer)),
      limits_(limits),
      unix_offset_ns_(unix_offset_ns()),
      filter_(query_.filter, *symbolizer_),
      frames_(*symbolizer_, query_.filter.hidden().get(), query_.filter.site_frame()) {}

bool EventStream::put(const EventRead& read, const Send& send) {
  if (!read.next) return true;
  message_.set_dropped_events(read.dropped);
  message_.set_lost_records(read.lost.of(query_.of_c));
  for (const EventSlice& slice : read.slices) {
    if (!put(slice, read.next->log, send)) return false;
  }
  const bool anything =
      message_.events_size() > 0 || message_.dropped_events() > 0 || message_.lost_records() > 0;
  if (begun_ && !anything && silent_ < limits_.silent_events) return true;
  return send_message(*read.next, send);
}

bool EventStream::put(const EventSlice& slice, std::uint64_t log, const Send& send) {
  const EventChunk& chunk = *slice.chunk;
  const double rate = chunk.rate_of(query_.of_c);
  std::uint64_t number = slice.first();
  if (message_.events_size() > 0 && message_.sampling_rate() != rate &&
      !send_message({log, number}, send)) {
    return false;
  }
  message_.set_sampling_rate(rate);
  for (const SampleEvent& event : slice.events()) {
    ++number;
    ++silent_;
    const EventClass* alloc_class = chunk.find(event.alloc_class);
    if (alloc_class == nullptr || !wanted(event, *alloc_class)) continue;
    add(event, *alloc_class);
    if (!message_full()) continue;
    if (!send_message({log, number}, send)) return false;
    message_.set_sampling_rate(rate);
  }
  return true;
}

bool EventStream::message_full() const {
  return static_cast<std::size_t>(message_.events_size()) >= limits_.events ||
         text_bytes_ >= limits_.text_bytes;
}

bool EventStream::send_message(EventCursor cursor, const Send& send) {
  message_.mutable_cursor()->set_log(cursor.log);
  message_.mutable_cursor()->set_next_event(cursor.next_event);
  const bool sent = send(message_);
  message_.Clear();
  text_bytes_ = 0;
  silent_ = 0;
  begun_ = true;
  return sent;
}

bool EventStream::wanted(const SampleEvent& event, const EventClass& alloc_class) {
  return event.of_c() == query_.of_c && (query_.kinds >> kind_of(event) & 1) != 0 &&
         passes(alloc_class) && lifetime_passes(event);
}

bool EventStream::passes(const EventClass& alloc_class) {
  if (alloc_class.id == ClassId()) return query_.unknown_blocks;
  const std::size_t index = alloc_class.id.value();
  if (index >= verdicts_.size()) verdicts_.resize(index + 1, Verdict::kUnknown);
  if (verdicts_[index] == Verdict::kUnknown) {
    const bool passes = filter_.passes(alloc_class.alloc_class, *alloc_class.callstack);
    verdicts_[index] = passes ? Verdict::kPasses : Verdict::kFails;
  }
  return verdicts_[index] == Verdict::kPasses;
}

bool EventStream::lifetime_passes(const SampleEvent& event) const {
  const double min = query_.min_lifetime_seconds;
  const double max = query_.max_lifetime_seconds;
  if ((min <= 0 && max <= 0) || !is_dealloc(event)) return true;
  if (event.alloc_time_ns == 0) return false;  // unknown
  const double lifetime = lifetime_seconds(event);
  return lifetime >= min && (max <= 0 || lifetime <= max);
}

void EventStream::add(const SampleEvent& event, const EventClass& alloc_class) {
  introduce(alloc_class);
  pb::SampleEvent& out = *message_.add_events();
  out.set_kind(kind_of(event));
  out.set_time_unix_ns(static_cast<std::int64_t>(event.record.time_ns) + unix_offset_ns_);
  out.set_block(block_number(event));
  out.set_n_samples(event.record.n_samples);
  out.set_thread(MEMPROF_ORIGIN_TID(event.record.origin));
  fill_block(event, alloc_class, out);
  if (is_dealloc(event) && event.alloc_time_ns != 0) {
    out.set_lifetime_seconds(lifetime_seconds(event));
  }
}

void EventStream::introduce(const EventClass& alloc_class) {
  const CallstackId id = alloc_class.alloc_class.callstack;
  if (id == CallstackId()) return;
  if (known_.size() >= limits_.known_callstacks && !known_.contains(id)) known_.clear();
  if (!known_.insert(id).second) return;
  pb::EventCallstack& out = *message_.add_callstacks();
  out.set_id(id.value());
  const auto add_location = [&](LocationId location_id) {
    const Location& location = frames_.location(location_id);
    *out.add_locations() = to_proto(location);
    text_bytes_ += location.function.size() + location.file.size() + location.library.size() + 16;
  };
  if (!query_.full_callstacks) return add_location(frames_.site(*alloc_class.callstack));
  for (const LocationId location : frames_.location_ids(*alloc_class.callstack)) {
    add_location(location);
  }
}

}  // namespace memprofd
