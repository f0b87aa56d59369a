// SPDX-License-Identifier: Apache-2.0
// Decodes ring buffer bytes into typed events. Accepts arbitrary bytes and allocates nothing.
//
// A record may be longer than its event, because the kernel side reserves fixed-size classes. The
// event's own counts determine its length; bytes after it are ignored.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "bpf/events.h"
#include "daemon/util/drops.h"
#include "daemon/util/ids.h"

namespace memprofd {

// The spans in the views point into the ring buffer.
struct CaptureView {
  std::uint64_t time_ns = 0;
  std::uint32_t tid = 0;
  StackHash stack;  // never 0
  std::int32_t alloc_idx = -1;
  std::uint32_t flags = 0;  // enum memprof_capture_flags
  std::uint32_t n_frames = 0;
  std::uint64_t captures_dropped = 0;
  std::span<const std::uint64_t> entries;  // empty: the stack was sent earlier
};

struct BatchView {
  std::uint64_t time_ns = 0;
  std::uint32_t captures_dropped = 0;  // low half
  std::uint32_t generation = 0;
  std::uint64_t first_seq = 0;
  std::uint32_t buffer = 0;  // below MEMPROF_BUFFERS
  // At most MEMPROF_BATCH_RECORDS. Each must still be checked with valid_record().
  std::span<const memprof_record> records;
};

// Records with callstacks; see PackedDecoder.
struct PackedView {
  std::uint64_t time_ns = 0;
  std::uint32_t generation = 0;
  std::uint64_t first_seq = 0;
  std::uint32_t buffer = 0;    // below MEMPROF_BUFFERS
  memprof_packed_head head{};  // at most half as many records as words
  std::span<const std::uint32_t> words;
};

// A hit of observe mode: an allocation that did not fit into the minor heap, and the counters of
// its domain as the runtime maintains them (bpf/events.h).
struct ObservedView {
  std::uint64_t time_ns = 0;
  std::uint32_t tid = 0;
  StackHash stack;  // 0: unknown
  std::uint64_t domain_state = 0;
  std::uint32_t domain = 0;
  std::uint32_t size_words = 0;
  std::array<std::uint64_t, 3> words{};  // minor, promoted, major
  std::uint64_t young_ptr = 0;
  std::uint64_t young_end = 0;
  std::uint64_t young_limit = 0;
};

struct LifecycleView {
  std::uint64_t time_ns = 0;
  std::uint32_t tid = 0;
  memprof_lifecycle_what what = MEMPROF_LIFECYCLE_EXEC;
};

struct ForkView {
  std::uint64_t time_ns = 0;
  int child = 0;
};

// The allocation of a sampled native block or, with a size of 0, its free.
struct NativeBlockView {
  std::uint64_t time_ns = 0;
  std::uint32_t tid = 0;
  StackHash stack;  // 0: unknown
  std::uint64_t number = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t n_samples = 0;
  std::uint32_t generation = 0;
  std::uint64_t lost = 0;  // total of such events that were lost
};

using EventView = std::variant<CaptureView, BatchView, PackedView, LifecycleView, ForkView,
                               ObservedView, NativeBlockView>;

// Returns nullopt for malformed data and counts it in drops. data must be aligned to 8 bytes, as
// the ring buffer's records are; other data is rejected as kDecodeTooShort.
std::optional<EventView> decode_event(std::span<const std::byte> data, DropCounters& drops);

// True if a record is valid by itself, without comparing its id with others.
bool valid_record(const memprof_record& record);

constexpr bool is_alloc_kind(std::uint32_t kind) {
  return kind == MEMPROF_ALLOC_MINOR || kind == MEMPROF_ALLOC_MAJOR;
}
inline bool is_alloc(const memprof_record& record) {
  return is_alloc_kind(MEMPROF_ORIGIN_KIND(record.origin));
}

}  // namespace memprofd
