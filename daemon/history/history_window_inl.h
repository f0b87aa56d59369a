// SPDX-License-Identifier: Apache-2.0
// Reading of HistoryWindow; included by history_window.h only.
#pragma once

namespace memprofd {

// Reads what add_cell() wrote; the window is our own and trusted, and must stay.
class WindowPartReader {
 public:
  WindowPartReader(const std::uint8_t* counts, std::uint32_t cells,
                   const std::array<BitReader, kHeaps>& lifetimes, const LongestBuckets& longest,
                   DeathsToRead deaths)
      : next_(counts), left_(cells), lifetimes_(lifetimes), longest_(longest), to_read_(deaths) {}

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
    return &cell_;
  }

 private:
  static constexpr int kYoung = static_cast<int>(Heap::kMinor);
  static constexpr int kOld = static_cast<int>(Heap::kMajor);

  // From the end on, as the codes fall.
  void read_deaths() {
    DeathCounts::Entry* const end = deaths_.data() + deaths_.size();
    DeathCounts::Entry* first = end;
    for (const Heap heap : {Heap::kMajor, Heap::kMinor}) {
      const int i = static_cast<int>(heap);
      if (!to_read_[i]) continue;
      int bucket = longest_[i] + 1;
      for (std::uint64_t left = cell_.died[i]; left > 0;) {
        bucket -= static_cast<int>(lifetimes_[i].gamma());
        const std::uint64_t n = left == 1 ? 1 : lifetimes_[i].gamma();
        *--first = {DeathCounts::code_of(heap, bucket), n};
        left -= n;
      }
    }
    cell_.deaths = {first, end};
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
  DeathsToRead to_read_;
  WindowCell cell_;
  std::array<DeathCounts::Entry, kHeaps * LifetimeHistogram::kBuckets> deaths_;
};

inline WindowPartReader HistoryWindow::read(std::size_t part, DeathsToRead deaths) const {
  const Part& from = parts_[part];
  return {counts_.data() + from.counts_at,
          from.cells,
          {BitReader(lifetimes_[0].bytes().data(), from.lifetimes_at[0]),
           BitReader(lifetimes_[1].bytes().data(), from.lifetimes_at[1])},
          from.longest,
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
