// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/resident_reader.h"

#include <algorithm>
#include <cstring>

#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kPieceBytes = 64 << 10;
constexpr std::uint64_t kClockCheckEvery = 4096;  // number of reads between two checks of the time

}  // namespace

void ResidentReader::check_clock() const {
  late_ |= stop_.stop_requested() || Clock::now() >= until_;
}

absl::Status ResidentReader::fill(std::uint64_t address, std::size_t bytes) const {
  check_clock();
  late_ |= pieces_++ >= max_pieces_;
  if (late_) return absl::DeadlineExceededError("no time is left");
  if (address >= kEndOfMemory || bytes > kPieceBytes)
    return absl::OutOfRangeError("no such memory");
  const std::uint64_t begin = address / kPageBytes * kPageBytes;
  std::uint64_t end = begin;
  RETURN_IF_ERROR(pages_.scan(begin, begin + kPieceBytes + kPageBytes, [&](const PageRun& run) {
    if (run.begin == end && !run.swapped) end = run.end;
  }));
  if (end < address + bytes) return absl::UnavailableError("not resident");
  piece_.resize(std::min(end - begin, kPieceBytes + kPageBytes));
  const absl::Status status = memory_.read(begin, piece_);
  begin_ = begin;
  if (status.ok()) return status;
  piece_.clear();
  if (!absl::IsOutOfRange(status)) broken_ = status;
  return status;
}

absl::Status ResidentReader::read(std::uint64_t address, std::span<std::byte> out) const {
  if (!broken_.ok()) return broken_;
  if (out.empty()) return absl::OkStatus();
  if (++reads_ % kClockCheckEvery == 0) check_clock();
  if (late_) return absl::DeadlineExceededError("no time is left");
  if (!holds(address, out.size())) RETURN_IF_ERROR(fill(address, out.size()));
  std::memcpy(out.data(), piece_.data() + (address - begin_), out.size());
  return absl::OkStatus();
}

}  // namespace memprofd
