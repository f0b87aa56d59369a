// Template members of HistoryWindow; included by history_window.h only.
#pragma once

#include <array>

namespace memprofd {

// Reads what add_part() wrote; bytes are our own and trusted.
class WindowCellReader {
 public:
  explicit WindowCellReader(const std::uint8_t* next) : next_(next) {}

  // The first cell of a part follows.
  void begin_part() { class_ = 0; }
  WindowCell read() {
    class_ += varint();
    const std::uint8_t head = *next_++;
    WindowCell cell{.alloc_class = ClassId(class_)};
    cell.allocated = (head & 3) == 2 ? varint() : head & 3;
    if (head & 4) cell.promoted = varint();
    if (head & 8) cell.forgotten = varint();
    const std::uint32_t deaths = (head >> 4) == 15 ? varint() : head >> 4;
    for (std::uint32_t i = 0; i < deaths; ++i) {
      deaths_[i].code = *next_++;
      deaths_[i].n = varint();
    }
    cell.deaths = {deaths_.data(), deaths};
    return cell;
  }

 private:
  std::uint32_t varint() {
    std::uint32_t value = *next_ & 0x7f;
    for (unsigned shift = 7; (*next_++ & 0x80) != 0; shift += 7) {
      value |= static_cast<std::uint32_t>(*next_ & 0x7f) << shift;
    }
    return value;
  }

  const std::uint8_t* next_;
  std::uint32_t class_ = 0;
  std::array<DeathCounts::Entry, 256> deaths_;  // one for each code
};

template <typename Fn>
void HistoryWindow::for_each_cell(Fn fn) const {
  WindowCellReader reader(bytes_.data());
  for (const Part& part : parts_) {
    reader.begin_part();
    for (std::uint32_t i = 0; i < part.cells; ++i) fn(reader.read(), part.rate);
  }
}

}  // namespace memprofd
