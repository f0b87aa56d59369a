// SPDX-License-Identifier: Apache-2.0
// Readers of HistoryWindow; included by history_window.h only.
#pragma once

namespace memprofd {

// Reads the counts that add_cell() wrote. Trusts the data, because memprofd wrote it. The window
// must outlive this.
class WindowCountReader {
 public:
  // Starts at a class, which must be above all earlier ones.
  WindowCountReader(const std::uint8_t* counts, std::uint32_t cells, std::uint32_t class_id = 0)
      : next_(counts), left_(cells), class_(class_id) {}

  std::uint32_t next_class() const { return class_; }  // or a later one

  // Advances to the next cell and returns true if there is one.
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
  std::uint32_t class_;
};

// Reads all of a part; the window must outlive this.
class WindowPartReader {
 public:
  WindowPartReader(const HistoryWindow& window, std::size_t part, DeathsToRead deaths)
      : window_(window),
        part_(window.parts_[part]),
        next_mark_(window.marks_.data() + part_.marks_at),
        end_mark_(next_mark_ + part_.marks),
        counts_(counts_from({})),
        lifetimes_{lifetimes_from(0, {}), lifetimes_from(1, {})},
        age_bits_(ages_from({})),
        to_read_(deaths) {}

  // Returns the next cell, valid until the next call; null at the end.
  const WindowCell* next() {
    if (!counts_.next(cell_)) return nullptr;
    Entry* const end = deaths_.data() + deaths_.size();
    Entry* first = end;
    // Compares element by element, because comparing the arrays would call memcmp().
    if (to_read_[kOld]) first = read_backwards(Heap::kMajor, first);
    if (to_read_[kYoung]) first = read_backwards(Heap::kMinor, first);
    cell_.deaths = {first, end};
    cell_.ages = {};
    if (cell_.forgotten > 0) {
      Entry* const last = ages_.data() + ages_.size();
      cell_.ages = {read_backwards(age_bits_, Heap::kMinor, part_.oldest, cell_.forgotten, last),
                    last};
    }
    return &cell_;
  }
  // Returns the cell of that class or the next later one. The class must be above that of the
  // previous cell. Skips most cells in between.
  const WindowCell* next_from(ClassId id) {
    if (next_mark_ != end_mark_ && next_mark_->next_class <= id.value()) pass_marks(id.value());
    const WindowCell* cell = next();
    while (cell != nullptr && cell->alloc_class < id) cell = next();
    return cell;
  }

 private:
  static constexpr int kYoung = static_cast<int>(Heap::kMinor);
  static constexpr int kOld = static_cast<int>(Heap::kMajor);

  using Entry = DeathCounts::Entry;

  WindowCountReader counts_from(const WindowMark& mark) const {
    return {window_.counts_.data() + part_.counts_at + mark.counts, part_.cells - mark.cells,
            mark.next_class};
  }
  BitReader lifetimes_from(int heap, const WindowMark& mark) const {
    return {window_.lifetimes_[heap].bytes().data(),
            part_.lifetimes_at[heap] + mark.lifetimes[heap]};
  }
  BitReader ages_from(const WindowMark& mark) const {
    return {window_.ages_.bytes().data(), part_.ages_at + mark.ages};
  }
  // Advances to the last mark that does not skip the class, unless the reader is already beyond it.
  void pass_marks(std::uint32_t wanted) {
    const WindowMark* last = next_mark_++;
    while (next_mark_ != end_mark_ && next_mark_->next_class <= wanted) last = next_mark_++;
    if (last->next_class <= counts_.next_class()) return;
    counts_ = counts_from(*last);
    for (int heap = 0; heap < kHeaps; ++heap) lifetimes_[heap] = lifetimes_from(heap, *last);
    age_bits_ = ages_from(*last);
  }

  Entry* read_backwards(Heap heap, Entry* first) {
    const int i = static_cast<int>(heap);
    return read_backwards(lifetimes_[i], heap, part_.longest[i], cell_.died[i], first);
  }
  // Writes the entries of `left` samples in front of `first`, by descending code, and returns the
  // first one.
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

  const HistoryWindow& window_;
  const HistoryWindow::Part& part_;
  const WindowMark* next_mark_;
  const WindowMark* end_mark_;
  WindowCountReader counts_;
  std::array<BitReader, kHeaps> lifetimes_;
  BitReader age_bits_;
  DeathsToRead to_read_;
  WindowCell cell_;
  std::array<Entry, kHeaps * LifetimeHistogram::kBuckets> deaths_;
  std::array<Entry, LifetimeHistogram::kBuckets> ages_;
};

inline WindowPartReader HistoryWindow::read(std::size_t part, DeathsToRead deaths) const {
  return {*this, part, deaths};
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
