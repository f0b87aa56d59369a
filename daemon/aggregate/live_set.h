// SPDX-License-Identifier: Apache-2.0
// The sampled blocks that are followed: allocated and not yet deallocated.
//
// Most blocks die young, roughly in the order of their allocation, and their numbers ascend. So the
// latest ones are in slots indexed by their number, without a search. A block that is still live
// when another one needs its slot moves to a table. With four slots:
//
//   numbers   1 2 3 4 5 6    7 8 9 10        2, 3, 4, 5, 7 and 8 have died
//   slots                      9 10 (7) (8)
//   table     1         6
//
// The table is compact: a block costs a 20-byte slot and one control byte of an open addressing
// table that is between 7/16 and 7/8 full, so 24 to 48 bytes. The few blocks with 65,536 samples
// and more, which need larger slots, have a table of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

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
  static constexpr std::uint32_t kCSession = kSessions;  // session of the native heap

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
  // The session in which the block was sampled.
  std::uint32_t session() const { return session_; }
  // The heap that currently contains the block.
  Heap heap() const { return major_ ? Heap::kMajor : Heap::kMinor; }
  void move_to_major() { major_ = 1; }
  const LiveSample& whole() const { return *this; }

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

  // memory: charged for the set; null: no limit. id_step: difference between consecutive numbers of
  // one domain's blocks, a power of two.
  explicit LiveSet(std::size_t max_samples, SharedBudget memory = nullptr,
                   std::uint64_t id_step = 1);

  Inserted insert(SampleId id, const LiveSample& sample);
  std::optional<LiveSample> find(SampleId id) const;
  // Moves a block to the major heap and returns its previous state. Returns nullopt if it is not
  // followed or was in the major heap already.
  std::optional<LiveSample> promote(SampleId id);
  std::optional<LiveSample> take(SampleId id);

  // Visits the blocks in no particular order.
  template <typename Fn>
  void for_each(Fn fn) const {
    for (const auto& [id, sample] : small_) fn(sample.whole());
    for (const auto& [id, sample] : large_) fn(sample);
    for (const Young& young : young_) {
      if (young.id != kNobody) fn(young.sample);
    }
  }
  // Removes the blocks for which is_gone is true.
  template <typename Fn>
  void erase_if(Fn is_gone) {
    absl::erase_if(small_, [&](const auto& entry) { return is_gone(entry.second.whole()); });
    absl::erase_if(large_, [&](const auto& entry) { return is_gone(entry.second); });
    for (Young& young : young_) {
      if (young.id != kNobody && is_gone(young.sample)) leave(young);
    }
  }
  std::size_t size() const { return small_.size() + large_.size() + young_blocks_; }
  // Removes all blocks and frees the memory.
  void clear();
  std::size_t memory_bytes() const;

 private:
  // A number and a sample count that together fit into 20 bytes without padding, as most do.
  struct [[gnu::packed, gnu::aligned(2)]] SmallId {
    std::uint64_t number : 48;

    static bool fits(SampleId id) { return id.value() >> 48 == 0; }
    friend bool operator==(const SmallId& a, const SmallId& b) { return a.number == b.number; }
  };
  struct [[gnu::packed, gnu::aligned(2)]] SmallSample {
    std::uint64_t alloc_time_ns;
    std::uint32_t alloc_class : 26;
    std::uint32_t session : 5;
    std::uint32_t major : 1;
    std::uint16_t n_samples;

    static bool fits(const LiveSample& sample) { return sample.n_samples() >> 16 == 0; }
    explicit SmallSample(const LiveSample& sample)
        : alloc_time_ns(sample.alloc_time_ns()),
          alloc_class(sample.alloc_class().value()),
          session(sample.session()),
          major(sample.heap() == Heap::kMajor),
          n_samples(static_cast<std::uint16_t>(sample.n_samples())) {}
    LiveSample whole() const {
      return {alloc_time_ns, n_samples, ClassId(alloc_class), major ? Heap::kMajor : Heap::kMinor,
              session};
    }
    Heap heap() const { return major ? Heap::kMajor : Heap::kMinor; }
    void move_to_major() { major = 1; }
  };

  // Consecutive samples, including those of one domain (their ids are 128 apart), are neighbours in
  // the table. Their events occur at about the same time, so one cache miss serves eight. The table
  // uses the low 7 bits to distinguish the samples of a group, and the others as the group.
  struct Hash {
    std::size_t operator()(SampleId id) const {
      constexpr std::uint64_t kNeighbours = 7u << 7;
      const std::size_t block = absl::HashOf(id.value() & ~kNeighbours);
      return block << 10 | block >> 60 << 3 | (id.value() & kNeighbours) >> 7;
    }
    std::size_t operator()(SmallId id) const { return (*this)(SampleId(id.number)); }
  };
  using SmallTable = absl::flat_hash_map<SmallId, SmallSample, Hash>;
  using LargeTable = absl::flat_hash_map<SampleId, LiveSample, Hash>;
  static_assert(sizeof(SmallTable::value_type) == 20);

  // Larger numbers belong to the native heap or to programs that invent numbers. No block has the
  // last number.
  static constexpr std::uint64_t kNotCounted = std::uint64_t{1} << 63;
  static constexpr SampleId kNobody = SampleId(~std::uint64_t{0});
  // Initial and maximum number of slots. The maximum matches the sampled blocks in a busy program's
  // minor heap and fits into a processor's own cache.
  static constexpr std::size_t kFewestSlots = 256, kMaxSlots = 8192;

  struct Young {
    SampleId id = kNobody;
    LiveSample sample{0, 0, ClassId(), Heap::kMinor};
  };
  static_assert(sizeof(Young) == 24);

  bool is_next(SampleId id);
  std::size_t slot_of(SampleId id) const;  // requires that there are slots
  const Young* at_slot(SampleId id) const;
  bool move_on(Young& young);
  void leave(Young& young) {
    young.id = kNobody;
    --young_blocks_;
  }
  void set_slots(std::size_t slot_count);
  Inserted insert_into_table(SampleId id, const LiveSample& sample);
  template <typename Table>
  bool has_room(const Table& table);

  std::size_t max_samples_;
  const int step_log2_;
  std::vector<Young> young_;  // indexed by slot; empty, or a power of two
  std::size_t young_blocks_ = 0;
  std::size_t moved_on_ = 0;           // moves to the table since the number of slots last changed
  std::vector<std::uint64_t> latest_;  // latest number by domain
  SmallTable small_;
  LargeTable large_;
  ByteCharge charge_;
};

}  // namespace memprofd
