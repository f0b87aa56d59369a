// SPDX-License-Identifier: Apache-2.0
// Deaths of one class by heap and lifetime: number of samples, the words that they stand for, and
// the sum of squares per block, because samples of several weights cannot be distinguished later.
// Compact: most classes have only a few lifetimes. Copies share their memory until one of them
// changes, so that a snapshot of all classes costs little; each copy is for one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/aggregate/lifetime_histogram.h"
#include "daemon/model/heap.h"

namespace memprofd {

class DeathCounts {
 public:
  // Heap and lifetime of n samples. A window of the history does not set words, because each of its
  // parts has one rate.
  struct Entry {
    std::uint8_t code = 0;     // heap and bucket of LifetimeHistogram
    std::uint64_t n : 56 = 0;  // a sample each nanosecond for two years
    double words = 0;
    double squares = 0;  // sum over blocks of their words squared: how few they are

    Heap heap() const { return (code & 0x80) != 0 ? Heap::kMajor : Heap::kMinor; }
    int bucket() const { return code & 0x7f; }
  };
  static_assert(sizeof(Entry) == 24);
  static_assert(LifetimeHistogram::kBuckets <= 0x80);
  static constexpr std::uint8_t code_of(Heap heap, int bucket) {
    return static_cast<std::uint8_t>((heap == Heap::kMajor ? 0x80 : 0) | bucket);
  }

  // The same without what makes it cheap to copy: for one that changes with each event.
  struct Plain {
    std::vector<Entry> entries;  // by code; each once, n above 0
    double sum_ns = 0;           // of lifetimes, each by its words

    // One block. words_each: that one of its samples stands for.
    void add_block(Heap heap, std::uint64_t lifetime_ns, std::uint64_t n_samples,
                   double words_each) {
      const double words = static_cast<double>(n_samples) * words_each;
      const int bucket = LifetimeHistogram::bucket_of(lifetime_ns);
      add({code_of(heap, bucket), n_samples, words, words * words},
          static_cast<double>(lifetime_ns) * words);
    }
    void add(const Entry& added, double added_ns);
    // Keeps the memory.
    void clear() {
      entries.clear();
      sum_ns = 0;
    }
  };

  // Restores counts from the entries() and sum_ns() of another one.
  static DeathCounts of(std::vector<Entry> entries, double sum_ns);

  // One block. words_each: that one of its samples stands for.
  void add(Heap heap, std::uint64_t lifetime_ns, std::uint64_t n_samples, double words_each) {
    own().add_block(heap, lifetime_ns, n_samples, words_each);
  }
  // Those of another, in which one sample stood for one word.
  void add_plain(const Plain& deaths, double words_each);
  // For lifetimes known by their bucket only, which count with its middle.
  void add(const Entry& entry);
  // The same for several entries of one weight, by ascending code; their words and squares are
  // ignored. squares_each: of a block's words, for each of its samples.
  void add_codes(std::span<const Entry> deaths, double words_each, double squares_each);
  DeathCounts& operator+=(const DeathCounts& other);
  // Subtracts what was added before, to the precision of the bucket.
  void remove_code(std::uint8_t code, std::uint64_t n_samples, double words_each);
  // Keeps the memory, unless it is shared.
  void clear();

  bool empty() const { return entries().empty(); }
  // Ordered by code; each once, n above 0.
  std::span<const Entry> entries() const {
    return counts_ == nullptr ? std::span<const Entry>() : counts_->entries;
  }
  // Lifetimes, each by its words, summed up.
  double sum_ns() const { return counts_ == nullptr ? 0 : counts_->sum_ns; }
  LifetimeHistogram histogram() const;

 private:
  // Not shared with any other.
  Plain& own() {
    if (counts_ != nullptr && counts_.use_count() == 1) {
      // After the last reads by those who shared it.
      std::atomic_thread_fence(std::memory_order_acquire);
      return *counts_;
    }
    return copy();
  }
  Plain& copy();

  std::shared_ptr<Plain> counts_;  // null: nothing
};

// Ages of blocks that had not died when they were last seen, with the heap left out: kMinor.
using AgeCounts = DeathCounts;

}  // namespace memprofd
