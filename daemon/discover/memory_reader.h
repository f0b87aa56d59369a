// Bounded reads of another process's memory, or of a fake one in tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace memprofd {

class MemoryReader {
 public:
  virtual ~MemoryReader() = default;
  // Fills all of out from address, or fails and leaves out unspecified.
  virtual absl::Status read(std::uint64_t address, std::span<std::byte> out) const = 0;

  template <typename T>
  absl::Status read_value(std::uint64_t address, T& out) const {
    return read(address, std::as_writable_bytes(std::span<T, 1>(&out, 1)));
  }
};

}  // namespace memprofd
