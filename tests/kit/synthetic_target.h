// SPDX-License-Identifier: Apache-2.0
// A simulated program in steady state that feeds a Pipeline: most blocks die young in allocation
// order; one in ten is promoted, and for each of those a random older block dies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "daemon/pipeline/pipeline.h"
#include "tests/kit/packed_batch.h"
#include "tests/kit/ring_events.h"

namespace memprofd {

// Builds an agent's batch and the kernel's captures of its samples.
class KernelCaptured {
 public:
  static constexpr std::size_t kBatchRecords = MEMPROF_BATCH_RECORDS;

  void begin(std::uint64_t /*time_ns*/, std::uint64_t /*last_sample*/) {
    records_.clear();
    captures_.clear();
  }
  void alloc(std::uint64_t time_ns, std::uint64_t id, std::uint32_t tid, std::uint64_t stack) {
    captures_.push_back(
        {.header = {.kind = MEMPROF_EVENT_CAPTURE, .tid = tid, .time_ns = time_ns - 1},
         .stack_id = stack,
         .alloc_idx = 0,
         .n_frames = 30});
    records_.push_back(sample_record(time_ns, id, MEMPROF_ALLOC_MINOR, 1, tid));
  }
  void follow(std::uint64_t time_ns, std::uint64_t id, std::uint32_t kind) {
    records_.push_back(sample_record(time_ns, id, kind));
  }
  void end(std::uint64_t time_ns, std::uint64_t first_seq) {
    batch_ = ring_batch({.header = {.time_ns = time_ns}, .first_seq = first_seq, .generation = 1},
                        records_);
  }
  void send(Pipeline& pipeline) const {
    for (const memprof_capture& capture : captures_) {
      pipeline.on_ring_record({reinterpret_cast<const std::byte*>(&capture), sizeof capture});
    }
    pipeline.on_ring_record(batch_.bytes());
  }
  // Call this once, before all others.
  static void introduce(std::uint64_t stack, const std::vector<std::uint64_t>& outermost_first,
                        Pipeline& pipeline) {
    const std::vector<std::uint64_t> frames(outermost_first.rbegin(), outermost_first.rend());
    pipeline.on_ring_record(ring_capture({.stack_id = stack, .alloc_idx = 0}, frames).bytes());
  }

 private:
  std::vector<memprof_record> records_;
  std::vector<memprof_capture> captures_;
  RingRecord batch_{nullptr, 0, nullptr, 0};
};

// Builds a packed batch, whose callstacks the runtime captured.
class RuntimeCaptured {
 public:
  static constexpr std::size_t kBatchRecords = 1000;
  static constexpr std::uint32_t kShared = 20;  // outer frames shared by all callstacks
  static constexpr std::uint32_t kOwn = 10;

  void begin(std::uint64_t time_ns, std::uint64_t last_sample) {
    packed_ = PackedBatch(time_ns, last_sample);
    last_sample_ = last_sample;
    tid_ = 0;
    shared_ = 0;
  }
  void alloc(std::uint64_t time_ns, std::uint64_t id, std::uint32_t tid, std::uint64_t stack) {
    if (std::exchange(tid_, tid) != tid) packed_.thread(tid);
    frames_.clear();
    for (std::uint32_t i = shared_; i < kShared; ++i) frames_.push_back(PackedBatch::kBase + i);
    for (std::uint32_t i = 0; i < kOwn; ++i) {
      frames_.push_back(PackedBatch::kBase + stack * 1000 + i);
    }
    packed_.alloc(ticks(time_ns), 1, shared_, frames_);
    shared_ = kShared;
    last_sample_ = id;
  }
  void follow(std::uint64_t time_ns, std::uint64_t id, std::uint32_t kind) {
    packed_.follow(ticks(time_ns), kind, static_cast<std::uint32_t>(last_sample_ - id));
  }
  void end(std::uint64_t /*time_ns*/, std::uint64_t first_seq) {
    batch_ = packed_.event(first_seq, 1);
  }
  void send(Pipeline& pipeline) const { pipeline.on_ring_record(batch_.bytes()); }
  static void introduce(std::uint64_t, const std::vector<std::uint64_t>&, Pipeline&) {}

 private:
  std::uint32_t ticks(std::uint64_t time_ns) const {
    return static_cast<std::uint32_t>((time_ns - packed_.head.time_ns) / MEMPROF_PACKED_TIME_NS);
  }

  PackedBatch packed_;
  std::vector<std::uint64_t> frames_;
  std::uint64_t last_sample_ = 0;
  std::uint32_t tid_ = 0;
  std::uint32_t shared_ = 0;
  RingRecord batch_{nullptr, 0, nullptr, 0};
};

template <typename Captured>
class SyntheticTarget {
 public:
  struct Shape {
    std::size_t live = 10'000;  // kYoung of them are young
    std::uint64_t stacks = 2000;
    std::uint32_t threads = 4;
    // The oldest of the older blocks dies, so that lifetimes are almost equal.
    bool oldest_first = false;
  };
  static constexpr std::size_t kYoung = 4096;

  explicit SyntheticTarget(const Shape& shape) : shape_(shape) {
    pipeline.begin_session(1, 1e-4);
    pipeline.on_ring_record(ring_batch({.generation = 1}, {}).bytes());
    for (std::uint64_t stack = 1; stack <= shape.stacks; ++stack) {
      std::vector<std::uint64_t> frames(30);
      for (std::size_t i = 0; i < frames.size(); ++i) frames[i] = stack * 1000 + i;
      Captured::introduce(stack, frames, pipeline);
    }
    while (old_.size() + kYoung < shape.live) {
      fill_batch();
      send();
    }
  }

  // Builds the events of the next batch for send().
  void fill_batch() {
    events_.begin(time_ns_, next_id_ - 1);
    records_ = allocations_ = 0;
    while (records_ + 4 <= Captured::kBatchRecords) add_block();
    events_.end(++time_ns_, seq_);
    seq_ += records_;
  }
  // Returns the number of events: records, and callstacks of allocations.
  std::size_t send() {
    events_.send(pipeline);
    return records_ + allocations_;
  }

  Pipeline pipeline;

 private:
  void add_block() {
    const std::uint64_t id = next_id_++;
    events_.alloc(time_ns_ += 512, id, 1 + random_() % shape_.threads,
                  1 + random_() % shape_.stacks);
    ++records_;
    ++allocations_;
    if (id > kYoung) leave_young(id - kYoung);
  }
  void leave_young(std::uint64_t id) {
    if (random_() % 10 != 0 && full()) return follow(id, MEMPROF_DEALLOC_MINOR);
    follow(id, MEMPROF_PROMOTE);
    if (!full()) return old_.push_back(id);
    const std::size_t dies = shape_.oldest_first ? promoted_++ : random_();
    follow(std::exchange(old_[dies % old_.size()], id), MEMPROF_DEALLOC_MAJOR);
  }
  bool full() const { return old_.size() + kYoung >= shape_.live; }
  void follow(std::uint64_t id, std::uint32_t kind) {
    events_.follow(time_ns_, id, kind);
    ++records_;
  }

  Shape shape_;
  Captured events_;
  std::mt19937 random_{1};
  std::uint64_t time_ns_ = 1000;
  std::uint64_t seq_ = 0;
  std::uint64_t next_id_ = 1;
  std::vector<std::uint64_t> old_;  // ids of promoted blocks
  std::size_t promoted_ = 0;        // since live blocks reached their number
  std::size_t records_ = 0;
  std::size_t allocations_ = 0;
};

}  // namespace memprofd
