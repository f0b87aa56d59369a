// SPDX-License-Identifier: Apache-2.0
// Deaths of one class by heap and lifetime: number of samples, the words that they represent, and
// the sum of squares per block, because samples of different weights cannot be separated later.
// Compact, because most classes have only a few lifetimes. Copies share their memory until one of
// them changes, so that a snapshot of all classes is cheap. Each copy belongs to one thread at a
// time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/aggregate/lifetime_histogram.h"
#include "daemon/model/heap.h"
#include "daemon/util/copy_on_write.h"

namespace memprofd {

class DeathCounts {
 public:
  // Heap and lifetime of n samples. Windows of the history leave words unset, because each of their
  // parts has one rate.
  struct Entry {
    std::uint8_t code = 0;     // heap and bucket of LifetimeHistogram
    std::uint64_t n : 56 = 0;  // enough for one sample per nanosecond over two years
    double words = 0;
    double squares = 0;  // sum of squared words over blocks, which shows how few blocks there are

    Heap heap() const { return (code & 0x80) != 0 ? Heap::kMajor : Heap::kMinor; }
    int bucket() const { return code & 0x7f; }
  };
  static_assert(sizeof(Entry) == 24);
  static_assert(LifetimeHistogram::kBuckets <= 0x80);
  static constexpr std::uint8_t code_of(Heap heap, int bucket) {
    return static_cast<std::uint8_t>((heap == Heap::kMajor ? 0x80 : 0) | bucket);
  }

  // The same data without copy-on-write, for a value that changes with each event.
  struct Plain {
    std::vector<Entry> entries;  // ordered by code; unique, n above 0
    double sum_ns = 0;           // sum of lifetimes weighted by words

    // Adds one block. words_each: words represented by one of its samples.
    void add_block(Heap heap, std::uint64_t lifetime_ns, std::uint64_t n_samples,
                   double words_each) {
      const double words = static_cast<double>(n_samples) * words_each;
      const int bucket = LifetimeHistogram::bucket_of(lifetime_ns);
      add({code_of(heap, bucket), n_samples, words, words * words},
          static_cast<double>(lifetime_ns) * words);
    }
    void add(const Entry& added, double added_ns);
    // Clears the counts but keeps the memory.
    void clear() {
      entries.clear();
      sum_ns = 0;
    }
  };

  // Restores counts from the entries() and sum_ns() of another object.
  static DeathCounts of(std::vector<Entry> entries, double sum_ns);

  // Adds one block. words_each: words represented by one of its samples.
  void add(Heap heap, std::uint64_t lifetime_ns, std::uint64_t n_samples, double words_each) {
    counts_.own().add_block(heap, lifetime_ns, n_samples, words_each);
  }
  // Adds deaths in which one sample represented one word.
  void add_plain(const Plain& deaths, double words_each);
  // Adds lifetimes of which only the bucket is known; each counts with the bucket's middle.
  void add(const Entry& entry);
  // Adds several entries of one weight, by ascending code, and ignores their words and squares.
  // squares_each: squared words of a block, per sample.
  void add_codes(std::span<const Entry> deaths, double words_each, double squares_each);
  DeathCounts& operator+=(const DeathCounts& other);
  // Subtracts earlier additions, to the precision of a bucket.
  void remove_code(std::uint8_t code, std::uint64_t n_samples, double words_each);
  // Clears the counts and keeps the memory, unless it is shared.
  void clear();

  bool empty() const { return entries().empty(); }
  // Ordered by code; unique, n above 0.
  std::span<const Entry> entries() const {
    return counts_.get() == nullptr ? std::span<const Entry>() : counts_.get()->entries;
  }
  // Sum of lifetimes weighted by words.
  double sum_ns() const { return counts_.get() == nullptr ? 0 : counts_.get()->sum_ns; }
  LifetimeHistogram histogram() const;

 private:
  CopyOnWrite<Plain> counts_;
};

// Ages of blocks that were alive when last seen. The heap is always kMinor.
using AgeCounts = DeathCounts;

}  // namespace memprofd
