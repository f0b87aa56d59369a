// SPDX-License-Identifier: Apache-2.0
// Ring buffer records as the kernel side writes them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "bpf/events.h"

namespace memprofd {

// Bytes of one record, aligned to 8 as in the ring.
class RingRecord {
 public:
  RingRecord(const void* fixed, std::size_t fixed_bytes, const void* tail, std::size_t tail_bytes)
      : bytes_(fixed_bytes + tail_bytes), words_((bytes_ + 7) / 8) {
    if (fixed_bytes > 0) std::memcpy(words_.data(), fixed, fixed_bytes);
    if (tail_bytes > 0) {
      std::memcpy(reinterpret_cast<std::byte*>(words_.data()) + fixed_bytes, tail, tail_bytes);
    }
  }
  std::span<const std::byte> bytes() const { return first(bytes_); }
  std::span<const std::byte> first(std::size_t n) const {
    return {reinterpret_cast<const std::byte*>(words_.data()), n};
  }

 private:
  std::size_t bytes_;
  std::vector<std::uint64_t> words_;
};

inline RingRecord ring_capture(memprof_capture capture, const std::vector<std::uint64_t>& entries) {
  capture.header.kind = MEMPROF_EVENT_CAPTURE;
  capture.n_entries = static_cast<std::uint32_t>(entries.size());
  capture.n_frames = std::max(capture.n_frames, capture.n_entries);
  return {&capture, sizeof capture, entries.data(), entries.size() * sizeof(std::uint64_t)};
}

// capacity: records of the reserved class; those past count are zero.
inline RingRecord ring_batch(memprof_batch batch, std::vector<memprof_record> records,
                             std::size_t capacity = 0) {
  batch.header.kind = MEMPROF_EVENT_BATCH;
  batch.count = static_cast<std::uint32_t>(records.size());
  if (records.size() < capacity) records.resize(capacity);
  return {&batch, sizeof batch, records.data(), records.size() * sizeof(memprof_record)};
}

inline RingRecord ring_lifecycle(memprof_lifecycle_what what, std::uint32_t tid,
                                 std::uint64_t time_ns) {
  memprof_lifecycle event{};
  event.header = {.kind = MEMPROF_EVENT_LIFECYCLE, .tid = tid, .time_ns = time_ns};
  event.what = what;
  return {&event, sizeof event, nullptr, 0};
}

inline memprof_record sample_record(std::uint64_t time_ns, std::uint64_t id, std::uint32_t kind,
                                    std::uint32_t n_samples = 0, std::uint32_t tid = 7,
                                    std::uint32_t source = MEMPROF_SOURCE_NORMAL) {
  return {.time_ns = time_ns,
          .sample_id = id,
          .size_words = n_samples,
          .n_samples = n_samples,
          .origin = MEMPROF_ORIGIN(tid, source, kind)};
}

}  // namespace memprofd
