// SPDX-License-Identifier: Apache-2.0
// Ring buffer bytes to typed events. Total on any bytes, allocates nothing.
//
// A record may be longer than its event: the kernel side reserves fixed-size
// classes. What counts is the event's own counts; bytes behind are ignored.
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

// The spans below borrow the ring buffer's bytes.
struct CaptureView {
  std::uint64_t time_ns = 0;
  std::uint32_t tid = 0;
  StackHash stack;  // never 0
  std::int32_t alloc_idx = -1;
  std::uint32_t flags = 0;  // enum memprof_capture_flags
  std::uint32_t n_frames = 0;
  std::uint64_t captures_dropped = 0;
  std::span<const std::uint64_t> entries;  // empty: the stack was sent before
};

struct BatchView {
  std::uint64_t time_ns = 0;
  std::uint32_t captures_dropped = 0;  // low half
  std::uint32_t generation = 0;
  std::uint64_t first_seq = 0;
  std::uint32_t buffer = 0;  // below MEMPROF_BUFFERS
  // At most MEMPROF_BATCH_RECORDS; each still to be checked with valid_record().
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

// An allocation that found no room, and the counters of its domain, as the runtime
// keeps them (bpf/events.h).
struct ObservedView {
  std::uint64_t time_ns = 0;
  std::uint32_t tid = 0;
  StackHash stack;  // 0: not known
  std::uint64_t domain_state = 0;
  std::uint32_t domain = 0;
  std::uint32_t size_words = 0;
  std::array<std::uint64_t, 3> words{};  // minor, promoted, major
  std::uint64_t young_ptr = 0;
  std::uint64_t young_end = 0;
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

// A sampled block of C's memory is allocated or, of no bytes, freed.
struct NativeBlockView {
  std::uint64_t time_ns = 0;
  std::uint32_t tid = 0;
  StackHash stack;  // 0: not known
  std::uint64_t number = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t n_samples = 0;
  std::uint32_t generation = 0;
  std::uint64_t lost = 0;  // such events so far
};

using EventView = std::variant<CaptureView, BatchView, PackedView, LifecycleView, ForkView,
                               ObservedView, NativeBlockView>;

// nullopt, counted in drops, when malformed. data must be aligned to 8 bytes,
// as the ring buffer's records are; other data is refused as kDecodeTooShort.
std::optional<EventView> decode_event(std::span<const std::byte> data, DropCounters& drops);

// True if a record is valid by itself; ids are not compared with others.
bool valid_record(const memprof_record& record);

constexpr bool is_alloc_kind(std::uint32_t kind) {
  return kind == MEMPROF_ALLOC_MINOR || kind == MEMPROF_ALLOC_MAJOR;
}
inline bool is_alloc(const memprof_record& record) {
  return is_alloc_kind(MEMPROF_ORIGIN_KIND(record.origin));
}

}  // namespace memprofd
