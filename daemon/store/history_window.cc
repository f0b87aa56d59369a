#include "daemon/store/history_window.h"

#include <algorithm>

namespace memprofd {
namespace {

void put_varint(std::vector<std::uint8_t>& out, std::uint32_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 0x80));
  out.push_back(static_cast<std::uint8_t>(value));
}

void put_cell(std::vector<std::uint8_t>& out, const IntervalCell& cell) {
  const auto& deaths = cell.deaths.entries();
  const std::size_t count = std::min<std::size_t>(deaths.size(), 15);
  out.push_back(static_cast<std::uint8_t>(std::min(cell.allocated, 2u) |
                                          (cell.promoted != 0 ? 4 : 0) |
                                          (cell.forgotten != 0 ? 8 : 0) | count << 4));
  if (cell.allocated >= 2) put_varint(out, cell.allocated);
  if (cell.promoted != 0) put_varint(out, cell.promoted);
  if (cell.forgotten != 0) put_varint(out, cell.forgotten);
  if (count == 15) put_varint(out, static_cast<std::uint32_t>(deaths.size()));
  for (const DeathCounts::Entry& death : deaths) {
    out.push_back(death.code);
    put_varint(out, death.n);
  }
}

}  // namespace

void HistoryWindow::add_part(const Interval& interval, double rate) {
  std::vector<const IntervalCell*> cells;
  cells.reserve(interval.cells().size());
  for (const IntervalCell& cell : interval.cells()) cells.push_back(&cell);
  std::sort(cells.begin(), cells.end(), [](const IntervalCell* a, const IntervalCell* b) {
    return a->alloc_class < b->alloc_class;
  });
  std::uint32_t before = 0;
  for (const IntervalCell* cell : cells) {
    put_varint(bytes_, cell->alloc_class.value() - before);
    before = cell->alloc_class.value();
    put_cell(bytes_, *cell);
  }
  parts_.push_back({rate, static_cast<std::uint32_t>(cells.size())});
}

std::size_t HistoryWindow::memory_bytes() const {
  return sizeof(*this) + parts_.capacity() * sizeof(Part) + bytes_.capacity();
}

}  // namespace memprofd
