// SPDX-License-Identifier: Apache-2.0
// Reading of HistoryWindow; included by history_window.h only.
#pragma once

namespace memprofd {

// Reads the counts that add_cell() wrote; the window is our own and trusted, and must stay.
class WindowCountReader {
 public:
  WindowCountReader(const std::uint8_t* counts, std::uint32_t cells)
      : next_(counts), left_(cells) {}

  // Whether there is a next cell, which is then in `cell`.
  [[gnu::always_inline]] bool next(WindowCell& cell) {
    if (left_ == 0) return false;
    --left_;
    const std::uint8_t head = *next_++;
    if ((head & 1) != 0) class_ += static_cast<std::uint32_t>(varint());
    cell.alloc_class = ClassId(class_++);
    cell.promoted = (head & 2) != 0 ? varint() : 0;
    cell.died[kOld] = (head & 4) != 0 ? varint() : 0;
    const std::uint64_t unfollowed = (head & 8) != 0 ? varint() : 0;
    cell.never_followed = unfollowed >> 1;
    cell.forgotten = (unfollowed & 1) != 0 ? varint() : 0;
    const std::uint64_t difference = (head & 16) != 0 ? varint() : 0;
    cell.died[kYoung] = head >> 5;
    if (cell.died[kYoung] == 7) cell.died[kYoung] += varint();
    cell.allocated =
        cell.died[kYoung] + cell.promoted + ((difference >> 1) ^ (0 - (difference & 1)));
    return true;
  }

 private:
  static constexpr int kYoung = static_cast<int>(Heap::kMinor);
  static constexpr int kOld = static_cast<int>(Heap::kMajor);

  [[gnu::always_inline]] std::uint64_t varint() {
    std::uint64_t value = *next_ & 0x7f;
    for (unsigned shift = 7; (*next_++ & 0x80) != 0; shift += 7) {
      value |= static_cast<std::uint64_t>(*next_ & 0x7f) << shift;
    }
    return value;
  }

  const std::uint8_t* next_;
  std::uint32_t left_;
  std::uint32_t class_ = 0;
};

// Reads all of it.
class WindowPartReader {
 public:
  WindowPartReader(const WindowCountReader& counts, const std::array<BitReader, kHeaps>& lifetimes,
                   const LongestBuckets& longest, const BitReader& ages, int oldest,
                   DeathsToRead deaths)
      : counts_(counts),
        lifetimes_(lifetimes),
        longest_(longest),
        age_bits_(ages),
        oldest_(oldest),
        to_read_(deaths) {}

  // The next cell, valid until the next call; null at the end.
  const WindowCell* next() {
    if (!counts_.next(cell_)) return nullptr;
    Entry* const end = deaths_.data() + deaths_.size();
    Entry* first = end;
    // Not as a comparison of arrays, which is a call of memcmp().
    if (to_read_[kOld]) first = read_backwards(Heap::kMajor, first);
    if (to_read_[kYoung]) first = read_backwards(Heap::kMinor, first);
    cell_.deaths = {first, end};
    if (to_read_[kOld] && to_read_[kYoung] && cell_.forgotten > 0) {
      Entry* const last = ages_.data() + ages_.size();
      cell_.ages = {read_backwards(age_bits_, Heap::kMinor, oldest_, cell_.forgotten, last), last};
    } else {
      cell_.ages = {};
    }
    return &cell_;
  }

 private:
  static constexpr int kYoung = static_cast<int>(Heap::kMinor);
  static constexpr int kOld = static_cast<int>(Heap::kMajor);

  using Entry = DeathCounts::Entry;

  Entry* read_backwards(Heap heap, Entry* first) {
    const int i = static_cast<int>(heap);
    return read_backwards(lifetimes_[i], heap, longest_[i], cell_.died[i], first);
  }
  // Puts the entries of `left` samples before `first`, as the codes fall; answers the first one.
  static Entry* read_backwards(BitReader& from, Heap heap, int longest, std::uint64_t left,
                               Entry* first) {
    if (left == 0) return first;
    BitReader bits = from;
    int bucket = longest + 1;
    while (left > 1) {
      const auto [below, n] = bits.two_gammas();
      bucket -= static_cast<int>(below);
      *--first = {DeathCounts::code_of(heap, bucket), n};
      left -= n;
    }
    if (left == 1) {
      bucket -= static_cast<int>(bits.gamma());
      *--first = {DeathCounts::code_of(heap, bucket), 1};
    }
    from = bits;
    return first;
  }

  WindowCountReader counts_;
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
  return {WindowCountReader(counts_.data() + from.counts_at, from.cells),
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
    WindowCountReader reader(counts_.data() + parts_[part].counts_at, parts_[part].cells);
    WindowCell cell;
    while (reader.next(cell)) fn(cell, parts_[part].rate);
  }
}

}  // namespace memprofd
