// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/buffer_finder.h"

#include <array>

#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

bool is_pointer(std::uint64_t value) { return value > kWordBytes && value % kWordBytes == 0; }
// True for an OCaml integer that is not negative.
bool is_length(std::uint64_t value) { return value % 2 == 1 && value >> 63 == 0; }
std::uint64_t integer(std::uint64_t value) { return value >> 1; }

}  // namespace

std::optional<std::uint64_t> BufferFinder::used(const BlockPart& part) {
  const std::uint64_t fields = has_inner_ ? 3 : 4;
  if (part.state != BlockState::kUsed || part.first != 0 || tag_of(part.header) != 0 ||
      fields_of(part.header) != fields || part.fields.size() < fields) {
    return std::nullopt;
  }
  const std::uint64_t position = part.fields[1];
  if (!is_pointer(part.fields[0]) || !is_length(position) || !is_pointer(part.fields[fields - 1]) ||
      (!has_inner_ && !is_length(part.fields[2])) || searches_ == kMaxSearches) {
    return std::nullopt;
  }
  ++searches_;
  const bool is_buffer = has_inner_ ? is_inner_of(part.fields[0], integer(position))
                                    : integer(position) <= integer(part.fields[2]) &&
                                          is_string_of(part.fields[0], integer(part.fields[2]));
  if (!is_buffer) return std::nullopt;
  return integer(position);
}

bool BufferFinder::is_inner_of(std::uint64_t value, std::uint64_t position) const {
  std::array<std::uint64_t, 3> block{};  // with its header
  if (!memory_.read_value(value - kWordBytes, block).ok()) return false;
  return tag_of(block[0]) == 0 && fields_of(block[0]) == 2 && is_pointer(block[1]) &&
         is_length(block[2]) && position <= integer(block[2]) &&
         is_string_of(block[1], integer(block[2]));
}

// The last byte of a string is the number of padding bytes before it.
bool BufferFinder::is_string_of(std::uint64_t value, std::uint64_t length) const {
  std::uint64_t header = 0, last = 0;
  if (!memory_.read_value(value - kWordBytes, header).ok()) return false;
  const std::uint64_t words = length / kWordBytes + 1;
  if (tag_of(header) != kStringTag || fields_of(header) != words) return false;
  return memory_.read_value(value + (words - 1) * kWordBytes, last).ok() &&
         last >> 56 == kWordBytes - 1 - length % kWordBytes;
}

}  // namespace memprofd
