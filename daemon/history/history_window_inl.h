// SPDX-License-Identifier: Apache-2.0
// Reading of HistoryWindow; included by history_window.h only.
#pragma once

namespace memprofd {

// Reads what add_cell() wrote; the window is our own and trusted, and must stay.
class WindowPartReader {
 public:
  WindowPartReader(const std::uint8_t* counts, std::uint32_t cells,
                   const std::array<BitReader, kHeaps>& lifetimes, const LongestBuckets& longest,
                   const BitReader& ages, int oldest, DeathsToRead deaths)
      : next_(counts),
        left_(cells),
        lifetimes_(lifetimes),
        longest_(longest),
        age_bits_(ages),
        oldest_(oldest),
        to_read_(deaths) {}

  // The next cell, valid until the next call; null at the end.
  const WindowCell* next() {
    if (left_ == 0) return nullptr;
    --left_;
    const std::uint8_t head = *next_++;
    if ((head & 1) != 0) class_ += static_cast<std::uint32_t>(varint());
    cell_.alloc_class = ClassId(class_++);
    cell_.promoted = (head & 2) != 0 ? varint() : 0;
    cell_.died[kOld] = (head & 4) != 0 ? varint() : 0;
    const std::uint64_t unfollowed = (head & 8) != 0 ? varint() : 0;
    cell_.never_followed = unfollowed >> 1;
    cell_.forgotten = (unfollowed & 1) != 0 ? varint() : 0;
    const std::uint64_t difference = (head & 16) != 0 ? varint() : 0;
    cell_.died[kYoung] = head >> 5;
    if (cell_.died[kYoung] == 7) cell_.died[kYoung] += varint();
    cell_.allocated =
        cell_.died[kYoung] + cell_.promoted + ((difference >> 1) ^ (0 - (difference & 1)));
    if (to_read_ != kNoDeaths) read_deaths();
    if (to_read_ == kAllDeaths) {
      Entry* const end = ages_.data() + ages_.size();
      cell_.ages = {read_backwards(age_bits_, Heap::kMinor, oldest_, cell_.forgotten, end), end};
    }
    return &cell_;
  }

 private:
  static constexpr int kYoung = static_cast<int>(Heap::kMinor);
  static constexpr int kOld = static_cast<int>(Heap::kMajor);

  using Entry = DeathCounts::Entry;

  void read_deaths() {
    Entry* const end = deaths_.data() + deaths_.size();
    Entry* first = end;
    for (const Heap heap : {Heap::kMajor, Heap::kMinor}) {
      const int i = static_cast<int>(heap);
      if (to_read_[i]) {
        first = read_backwards(lifetimes_[i], heap, longest_[i], cell_.died[i], first);
      }
    }
    cell_.deaths = {first, end};
  }
  // Puts the entries of `left` samples before `first`, as the codes fall; answers the first one.
  static Entry* read_backwards(BitReader& bits, Heap heap, int longest, std::uint64_t left,
                               Entry* first) {
    for (int bucket = longest + 1; left > 0;) {
      bucket -= static_cast<int>(bits.gamma());
      const std::uint64_t n = left == 1 ? 1 : bits.gamma();
      *--first = {DeathCounts::code_of(heap, bucket), n};
      left -= n;
    }
    return first;
  }
  std::uint64_t varint() {
    std::uint64_t value = *next_ & 0x7f;
    for (unsigned shift = 7; (*next_++ & 0x80) != 0; shift += 7) {
      value |= static_cast<std::uint64_t>(*next_ & 0x7f) << shift;
    }
    return value;
  }

  const std::uint8_t* next_;
  std::uint32_t left_;
  std::uint32_t class_ = 0;
  std::array<BitReader, kHeaps> lifetimes_;
  LongestBuckets longest_;
  BitReader age_bits_;
  int oldest_;
  DeathsToRead to_read_;
  WindowCell cell_;
  std::array<Entry, kHeaps * LifetimeHistogram::kBuckets> deaths_;
  std::array<Entry, LifetimeHistogram::kBuckets> ages_;
};

inline WindowPartReader HistoryWindow::read(std::size_t part, DeathsToRead deaths) const {
  const Part& from = parts_[part];
  return {counts_.data() + from.counts_at,
          from.cells,
          {BitReader(lifetimes_[0].bytes().data(), from.lifetimes_at[0]),
           BitReader(lifetimes_[1].bytes().data(), from.lifetimes_at[1])},
          from.longest,
          BitReader(ages_.bytes().data(), from.ages_at),
          from.oldest,
          deaths};
}

template <typename Fn>
void HistoryWindow::for_each_cell(Fn fn) const {
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    WindowPartReader reader = read(part, kAllDeaths);
    while (const WindowCell* cell = reader.next()) fn(*cell, parts_[part].rate);
  }
}

template <typename Fn>
void HistoryWindow::for_each_count(Fn fn) const {
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    WindowPartReader reader = read(part, kNoDeaths);
    while (const WindowCell* cell = reader.next()) fn(*cell, parts_[part].rate);
  }
}

}  // namespace memprofd
