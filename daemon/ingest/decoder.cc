// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/decoder.h"

#include <cstddef>

namespace memprofd {
namespace {

using Bytes = std::span<const std::byte>;

std::nullopt_t refuse(Drop reason, DropCounters& drops) {
  drops.add(reason);
  return std::nullopt;
}

// The event struct at the start of the bytes; null if there are too few bytes.
template <typename Event>
const Event* event_at(Bytes data) {
  if (data.size() < sizeof(Event)) return nullptr;
  return reinterpret_cast<const Event*>(data.data());
}

std::optional<EventView> decode_capture(Bytes data, DropCounters& drops) {
  const auto* event = event_at<memprof_capture>(data);
  if (event == nullptr) return refuse(Drop::kDecodeTooShort, drops);
  if (event->n_entries > MEMPROF_MAX_STACK_ENTRIES) return refuse(Drop::kDecodeBadCount, drops);
  const std::size_t room = (data.size() - sizeof *event) / sizeof(std::uint64_t);
  if (event->n_entries > room) return refuse(Drop::kDecodeTooShort, drops);
  if (event->stack_id == 0) return refuse(Drop::kDecodeBadRecord, drops);
  const auto* entries = reinterpret_cast<const std::uint64_t*>(data.data() + sizeof *event);
  return CaptureView{.time_ns = event->header.time_ns,
                     .tid = event->header.tid,
                     .stack = StackHash(event->stack_id),
                     .alloc_idx = event->alloc_idx,
                     .flags = event->flags,
                     .n_frames = event->n_frames,
                     .captures_dropped = event->captures_dropped,
                     .entries = {entries, event->n_entries}};
}

std::optional<EventView> decode_batch(Bytes data, DropCounters& drops) {
  const auto* event = event_at<memprof_batch>(data);
  if (event == nullptr) return refuse(Drop::kDecodeTooShort, drops);
  if (event->count > MEMPROF_BATCH_RECORDS || event->buffer >= MEMPROF_BUFFERS) {
    return refuse(Drop::kDecodeBadCount, drops);
  }
  const std::size_t room = (data.size() - sizeof *event) / sizeof(memprof_record);
  if (event->count > room) return refuse(Drop::kDecodeTooShort, drops);
  const auto* records = reinterpret_cast<const memprof_record*>(data.data() + sizeof *event);
  return BatchView{.time_ns = event->header.time_ns,
                   .captures_dropped = event->header.captures_dropped,
                   .generation = event->generation,
                   .first_seq = event->first_seq,
                   .buffer = event->buffer,
                   .records = {records, event->count}};
}

std::optional<EventView> decode_packed(Bytes data, DropCounters& drops) {
  constexpr std::size_t kFixed = offsetof(memprof_packed_batch, packed.words);
  if (data.size() < kFixed) return refuse(Drop::kDecodeTooShort, drops);
  const auto* event = reinterpret_cast<const memprof_packed_batch*>(data.data());
  memprof_packed_head head = event->packed.head;
  if (event->n_words == 0) head.records = 0;
  if (event->n_words > MEMPROF_PACKED_WORDS || event->buffer >= MEMPROF_BUFFERS ||
      head.records > event->n_words / 2) {
    return refuse(Drop::kDecodeBadCount, drops);
  }
  const std::size_t room = (data.size() - kFixed) / sizeof(std::uint32_t);
  if (event->n_words > room) return refuse(Drop::kDecodeTooShort, drops);
  return PackedView{.time_ns = event->header.time_ns,
                    .generation = event->generation,
                    .first_seq = event->first_seq,
                    .buffer = event->buffer,
                    .head = head,
                    .words = {event->packed.words, event->n_words}};
}

std::optional<EventView> decode_lifecycle(Bytes data, DropCounters& drops) {
  const auto* event = event_at<memprof_lifecycle>(data);
  if (event == nullptr) return refuse(Drop::kDecodeTooShort, drops);
  if (event->what < MEMPROF_LIFECYCLE_EXEC || event->what > MEMPROF_LIFECYCLE_FRAMETABLE) {
    return refuse(Drop::kDecodeBadKind, drops);
  }
  return LifecycleView{.time_ns = event->header.time_ns,
                       .tid = event->header.tid,
                       .what = static_cast<memprof_lifecycle_what>(event->what)};
}

std::optional<EventView> decode_fork(Bytes data, DropCounters& drops) {
  const auto* event = event_at<memprof_fork>(data);
  if (event == nullptr) return refuse(Drop::kDecodeTooShort, drops);
  return ForkView{.time_ns = event->header.time_ns, .child = static_cast<int>(event->child)};
}

std::optional<EventView> decode_observed(Bytes data, DropCounters& drops) {
  const auto* event = event_at<memprof_observed>(data);
  if (event == nullptr) return refuse(Drop::kDecodeTooShort, drops);
  return ObservedView{.time_ns = event->header.time_ns,
                      .tid = event->header.tid,
                      .stack = StackHash(event->stack_id),
                      .domain_state = event->domain_state,
                      .domain = event->domain,
                      .size_words = event->size_words,
                      .words = {event->words[0], event->words[1], event->words[2]},
                      .young_ptr = event->young_ptr,
                      .young_end = event->young_end,
                      .young_limit = event->young_limit};
}

std::optional<EventView> decode_native_block(Bytes data, DropCounters& drops) {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 47;  // more than can be allocated
  const auto* event = event_at<memprof_c_block>(data);
  if (event == nullptr) return refuse(Drop::kDecodeTooShort, drops);
  const bool allocated = event->bytes != 0;
  if (event->id == 0 || event->id >> 63 != 0 || event->bytes > kMaxBytes ||
      (allocated && event->n_samples == 0)) {
    return refuse(Drop::kDecodeBadRecord, drops);
  }
  return NativeBlockView{.time_ns = event->header.time_ns,
                         .tid = event->header.tid,
                         .stack = StackHash(event->stack_id),
                         .number = event->id,
                         .address = event->address,
                         .bytes = event->bytes,
                         .n_samples = event->n_samples,
                         .generation = event->generation,
                         .lost = event->lost};
}

}  // namespace

std::optional<EventView> decode_event(Bytes data, DropCounters& drops) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(data.data()) % alignof(std::uint64_t) == 0;
  const auto* header = aligned ? event_at<memprof_event_header>(data) : nullptr;
  if (header == nullptr) return refuse(Drop::kDecodeTooShort, drops);
  switch (header->kind) {
    case MEMPROF_EVENT_CAPTURE:
      return decode_capture(data, drops);
    case MEMPROF_EVENT_BATCH:
      return decode_batch(data, drops);
    case MEMPROF_EVENT_PACKED:
      return decode_packed(data, drops);
    case MEMPROF_EVENT_LIFECYCLE:
      return decode_lifecycle(data, drops);
    case MEMPROF_EVENT_FORK:
      return decode_fork(data, drops);
    case MEMPROF_EVENT_OBSERVED:
      return decode_observed(data, drops);
    case MEMPROF_EVENT_C_BLOCK:
      return decode_native_block(data, drops);
    default:
      return refuse(Drop::kDecodeBadKind, drops);
  }
}

bool valid_record(const memprof_record& record) {
  const auto kind = MEMPROF_ORIGIN_KIND(record.origin);
  return kind >= MEMPROF_ALLOC_MINOR && kind <= MEMPROF_DEALLOC_MAJOR &&
         MEMPROF_ORIGIN_SOURCE(record.origin) <= MEMPROF_SOURCE_CUSTOM && record.sample_id != 0 &&
         !(is_alloc(record) && record.n_samples == 0);
}

}  // namespace memprofd
