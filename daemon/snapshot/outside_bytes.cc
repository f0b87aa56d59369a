// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/outside_bytes.h"

#include <array>

namespace memprofd {
namespace {

constexpr std::size_t kMaxIdentifier = 64;
constexpr std::size_t kDimensionCount = 2, kFlags = 3, kFirstDimension = 5;
constexpr std::uint64_t kMaxDimensions = 16;
constexpr std::uint64_t kKindMask = 0xff;
// Indexed by kind: float32, float64, int8 and 16 signed and unsigned, int32, int64, int, nativeint,
// complex32, complex64, char, float16.
constexpr std::array<std::uint64_t, 14> kElementBytes = {4, 8, 1, 1, 2, 2, 4, 8, 8, 8, 8, 16, 1, 2};
// IO_BUFFER_SIZE of all versions.
constexpr std::uint64_t kChannelBytes = 65536;

std::uint64_t bigarray_bytes(std::span<const std::uint64_t> fields) {
  if (fields.size() < kFirstDimension) return 0;
  const std::uint64_t dimensions = fields[kDimensionCount];
  const std::uint64_t kind = fields[kFlags] & kKindMask;
  if (dimensions > kMaxDimensions || dimensions > fields.size() - kFirstDimension ||
      kind >= kElementBytes.size()) {
    return 0;
  }
  std::uint64_t bytes = kElementBytes[kind];
  for (const std::uint64_t size : fields.subspan(kFirstDimension, dimensions)) {
    if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > kMaxOutsideBytes) return 0;
  }
  return bytes;
}

}  // namespace

CustomIdentifier read_custom_identifier(const MemoryReader& memory, std::uint64_t operations) {
  CustomIdentifier identifier;
  std::string& text = identifier.text;
  std::uint64_t at = 0;
  if (!memory.read_value(operations, at).ok()) return identifier;
  for (char c = 0; text.size() < kMaxIdentifier && memory.read_value(at++, c).ok();) {
    identifier.is_printable = c == '\0' || (c >= ' ' && c <= '~');
    if (c == '\0' || !identifier.is_printable) break;
    text += c;
  }
  return identifier;
}

std::uint64_t outside_bytes(std::string_view identifier, std::span<const std::uint64_t> fields) {
  if (identifier == kBigarrayIdentifier) return bigarray_bytes(fields);
  return identifier == kChannelIdentifier ? kChannelBytes : 0;
}

}  // namespace memprofd
