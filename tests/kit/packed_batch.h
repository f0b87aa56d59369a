// SPDX-License-Identifier: Apache-2.0
// Packed batches in the agent's format.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "bpf/events.h"
#include "tests/kit/ring_events.h"

namespace memprofd {

class PackedBatch {
 public:
  static constexpr std::uint64_t kBase = 0x5500'0000'0000;

  explicit PackedBatch(std::uint64_t time_ns = 1000, std::uint64_t last_sample = 0,
                       std::uint32_t id_step = 1) {
    head.time_ns = time_ns;
    head.base_address = kBase;
    head.last_sample = last_sample;
    head.id_step = id_step;
  }

  PackedBatch& words_of(std::initializer_list<std::uint32_t> more) {
    words.insert(words.end(), more);
    return *this;
  }
  PackedBatch& thread(std::uint32_t tid) { return words_of({tid, MEMPROF_PACKED_THREAD}); }
  // frames: those after the shared ones, outermost first.
  PackedBatch& alloc(std::uint32_t time, std::uint32_t n_samples, std::uint32_t shared,
                     const std::vector<std::uint64_t>& frames, std::uint32_t bits = 0) {
    words_of({time,
              MEMPROF_ALLOC_MINOR | MEMPROF_PACKED_SHARED(shared) |
                  MEMPROF_PACKED_NEW(frames.size()) | bits,
              n_samples + 1, n_samples});
    for (const std::uint64_t frame : frames) add_frame(frame);
    ++head.records;
    return *this;
  }
  // The same with counts of any size.
  PackedBatch& deep(std::uint32_t time, std::uint32_t n_samples, std::uint32_t shared,
                    const std::vector<std::uint64_t>& frames) {
    words_of({time, MEMPROF_ALLOC_MINOR | MEMPROF_PACKED_DEEP, n_samples + 1, n_samples, shared,
              static_cast<std::uint32_t>(frames.size())});
    for (const std::uint64_t frame : frames) add_frame(frame);
    ++head.records;
    return *this;
  }
  PackedBatch& follow(std::uint32_t time, std::uint32_t kind, std::uint32_t behind) {
    ++head.records;
    return words_of({time, kind | MEMPROF_PACKED_BEHIND(behind)});
  }

  RingRecord event(std::uint64_t first_seq, std::uint32_t generation,
                   std::uint32_t buffer = 0) const {
    struct {
      memprof_event_header header;
      std::uint64_t first_seq;
      std::uint32_t generation, n_words, buffer, reserved;
      memprof_packed_head head;
    } event{};
    static_assert(sizeof event == offsetof(memprof_packed_batch, packed.words));
    event.header.kind = MEMPROF_EVENT_PACKED;
    event.header.time_ns = head.time_ns + 1'000'000'000;  // longer than any of them takes
    event.first_seq = first_seq;
    event.generation = generation;
    event.n_words = static_cast<std::uint32_t>(words.size());
    event.buffer = buffer;
    event.head = head;
    return {&event, sizeof event, words.data(), words.size() * sizeof(std::uint32_t)};
  }

  memprof_packed_head head{};
  std::vector<std::uint32_t> words;

 private:
  void add_frame(std::uint64_t address) {
    const auto distance = static_cast<std::int64_t>(address - kBase);
    if (distance > INT32_MIN && distance <= INT32_MAX) {
      words.push_back(static_cast<std::uint32_t>(distance));
    } else {
      words_of({MEMPROF_PACKED_FAR, static_cast<std::uint32_t>(address),
                static_cast<std::uint32_t>(address >> 32)});
    }
  }
};

}  // namespace memprofd
