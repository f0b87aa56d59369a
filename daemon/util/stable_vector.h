// SPDX-License-Identifier: Apache-2.0
// A vector whose elements never move: it grows by blocks, each as large as all before it. One
// thread at a time appends. Meanwhile other threads may read, without a lock, the elements whose
// append they have observed (through a lock, for example).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

namespace memprofd {

template <typename T>
class StableVector {
 public:
  // Returns the index of the new element.
  std::size_t push_back(T value) {
    const auto [block, offset] = slot_of(size_);
    if (blocks_[block] == nullptr) blocks_[block] = std::make_unique<T[]>(block_size(block));
    blocks_[block][offset] = std::move(value);
    return size_++;
  }
  const T& operator[](std::size_t index) const {
    const auto [block, offset] = slot_of(index);
    return blocks_[block][offset];
  }
  // Only the appending thread may call this.
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kFirst = 256;
  struct Slot {
    std::size_t block, offset;
  };

  // Block 0 holds the first 256 elements, block n those from 256 << (n - 1) on.
  static Slot slot_of(std::size_t index) {
    if (index < kFirst) return {0, index};
    const auto block = static_cast<std::size_t>(std::bit_width(index / kFirst));
    return {block, index - block_size(block)};
  }
  static std::size_t block_size(std::size_t block) {
    return block == 0 ? kFirst : kFirst << (block - 1);
  }

  std::array<std::unique_ptr<T[]>, 32> blocks_;
  std::size_t size_ = 0;
};

}  // namespace memprofd
