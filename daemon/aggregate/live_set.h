// SPDX-License-Identifier: Apache-2.0
// The sampled blocks that are followed: allocated, not yet deallocated.
//
// Made for size: a block costs a 24-byte slot and one control byte of an open
// addressing table that is between 7/16 and 7/8 full, so 29 to 57 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "daemon/model/alloc_class.h"
#include "daemon/util/byte_budget.h"
#include "daemon/util/ids.h"

namespace memprofd {

class LiveSample {
 public:
  static constexpr std::uint32_t kMaxClassId = (1u << 26) - 1;
  static constexpr std::uint32_t kSessions = 16;
  static constexpr std::uint32_t kCSession = kSessions;  // that of C's memory

  // Ids above kMaxClassId become the unknown class. session: below kSessions, or kCSession.
  LiveSample(std::uint64_t alloc_time_ns, std::uint32_t n_samples, ClassId alloc_class, Heap heap,
             std::uint32_t session = 0)
      : alloc_time_ns_(alloc_time_ns),
        n_samples_(n_samples),
        class_(alloc_class.value() <= kMaxClassId ? alloc_class.value() : 0),
        session_(session),
        major_(heap == Heap::kMajor) {}

  std::uint64_t alloc_time_ns() const { return alloc_time_ns_; }
  std::uint32_t n_samples() const { return n_samples_; }
  ClassId alloc_class() const { return ClassId(class_); }
  // In which it was sampled.
  std::uint32_t session() const { return session_; }
  // Where the block is now.
  Heap heap() const { return major_ ? Heap::kMajor : Heap::kMinor; }
  void move_to_major() { major_ = 1; }

 private:
  std::uint64_t alloc_time_ns_;
  std::uint32_t n_samples_;
  std::uint32_t class_ : 26;
  std::uint32_t session_ : 5;
  std::uint32_t major_ : 1;
};
static_assert(sizeof(LiveSample) == 16);

class LiveSet {
 public:
  enum class Inserted { kYes, kAlreadyThere, kFull };

  // memory: what the table is charged to; null: nobody.
  explicit LiveSet(std::size_t max_samples, SharedBudget memory = nullptr)
      : max_samples_(max_samples), charge_(std::move(memory)) {}

  Inserted insert(SampleId id, const LiveSample& sample);
  // Valid until the next insert; null when not followed.
  LiveSample* find(SampleId id);
  const LiveSample* find(SampleId id) const;
  std::optional<LiveSample> take(SampleId id);

  // In no order.
  template <typename Fn>
  void for_each(Fn fn) const {
    for (const auto& [id, sample] : samples_) fn(sample);
  }
  // Takes those out of which this is true.
  template <typename Fn>
  void erase_if(Fn is_gone) {
    absl::erase_if(samples_, [&](const auto& entry) { return is_gone(entry.second); });
  }
  std::size_t size() const { return samples_.size(); }
  // Gives the memory back.
  void clear();
  std::size_t memory_bytes() const;

 private:
  // Samples that follow each other, of one domain too (their ids are 128 apart), are
  // neighbours in the table: what happens to them happens at about the same time, so that
  // one cache miss serves all eight. The table takes the low 7 bits to tell the samples of
  // a place apart, the others as the place.
  struct Hash {
    std::size_t operator()(SampleId id) const {
      constexpr std::uint64_t kNeighbours = 7u << 7;
      const std::size_t block = absl::HashOf(id.value() & ~kNeighbours);
      return block << 10 | block >> 60 << 3 | (id.value() & kNeighbours) >> 7;
    }
  };
  using Table = absl::flat_hash_map<SampleId, LiveSample, Hash>;
  static_assert(sizeof(Table::value_type) == 24);
  static constexpr std::size_t kSlotBytes = sizeof(Table::value_type) + 1;

  bool has_room();

  std::size_t max_samples_;
  Table samples_;
  ByteCharge charge_;
};

}  // namespace memprofd
