// SPDX-License-Identifier: Apache-2.0
// Reads only the resident part of a program's memory. Reading a page that was never touched would
// map one there, and reading one that is swapped out would bring it back.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/rss/page_map.h"

namespace memprofd {

// Caches the last piece, so that a walk from low to high addresses reads rarely. Not thread-safe.
//
// The lists being read belong to a program that may be hostile, and may be circular: callers stop
// when reads fail, which happens after the time limit or a stop request.
class ResidentReader final : public MemoryReader {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

  // Both must outlive this.
  ResidentReader(const MemoryReader& memory, const PageMap& pages,
                 Clock::time_point until = Clock::time_point::max(), std::stop_token stop = {},
                 std::uint64_t max_pieces = kNoLimit)
      : memory_(memory),
        pages_(pages),
        until_(until),
        stop_(std::move(stop)),
        max_pieces_(max_pieces) {}

  // kUnavailable if a page of the range is not resident, kDeadlineExceeded if late(), otherwise the
  // errors of the memory.
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override;

  // The memory itself, without guard and cache, for what is known to be resident.
  const MemoryReader& unguarded() const { return memory_; }

  // The error after which nothing more can be read: the program has exited or does not respond.
  const absl::Status& broken() const { return broken_; }
  // True if a read was requested after the time limit, or after max_pieces pieces.
  bool late() const { return late_; }

 private:
  bool holds(std::uint64_t address, std::size_t bytes) const {
    return address >= begin_ && bytes <= piece_.size() && address - begin_ <= piece_.size() - bytes;
  }
  absl::Status fill(std::uint64_t address, std::size_t bytes) const;
  void check_clock() const;

  const MemoryReader& memory_;
  const PageMap& pages_;
  const Clock::time_point until_;
  const std::stop_token stop_;
  const std::uint64_t max_pieces_;
  mutable std::uint64_t pieces_ = 0;
  mutable std::uint64_t reads_ = 0;
  mutable bool late_ = false;
  mutable std::uint64_t begin_ = 0;
  mutable std::vector<std::byte> piece_;
  mutable absl::Status broken_;
};

}  // namespace memprofd
