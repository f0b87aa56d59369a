// SPDX-License-Identifier: Apache-2.0
// A cell for each class that had an event, until all are cleared. Allocates nothing in steady
// state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "daemon/model/alloc_class.h"

namespace memprofd {

// Cell must have a member alloc_class, and a clear() that resets everything else.
template <typename Cell>
class ClassCells {
 public:
  ClassCells() = default;
  // Takes over these cells, each of a different class. cell() must not be called afterwards.
  explicit ClassCells(std::vector<Cell> cells) : cells_(std::move(cells)), used_(cells_.size()) {}

  // Returns the cell of a class and creates it if needed.
  Cell& cell(ClassId alloc_class) {
    if (alloc_class.value() >= index_.size()) index_.resize(alloc_class.value() + 1);
    std::uint32_t& number = index_[alloc_class.value()];
    if (number == 0) number = use(alloc_class);
    return cells_[number - 1];
  }
  bool empty() const { return used_ == 0; }
  // The cells, in no particular order.
  std::span<const Cell> cells() const { return {cells_.data(), used_}; }
  // Removes all cells but keeps the memory.
  void clear() {
    for (std::size_t i = 0; i < used_; ++i) {
      index_[cells_[i].alloc_class.value()] = 0;
      cells_[i].clear();
    }
    used_ = 0;
  }

 private:
  std::uint32_t use(ClassId alloc_class) {
    if (used_ == cells_.size()) cells_.emplace_back();
    cells_[used_].alloc_class = alloc_class;
    return static_cast<std::uint32_t>(++used_);
  }

  std::vector<Cell> cells_;  // only the first used_ are in use
  std::size_t used_ = 0;
  std::vector<std::uint32_t> index_;  // cell number + 1 by class; 0: none
};

}  // namespace memprofd
