// SPDX-License-Identifier: Apache-2.0
// Bounded reads and writes of another process's memory, or of a fake one in tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memprofd {

// All addresses of a process are below this.
inline constexpr std::uint64_t kEndOfMemory = std::uint64_t{1} << 47;

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

// Memory that can show its contents, a piece at a time, instead of copying them.
class MemoryViewer {
 public:
  virtual ~MemoryViewer() = default;
  // The most that is shown at once.
  static constexpr std::size_t kMaxViewBytes = 512u << 10;
  // Returns exactly these bytes, as MemoryReader::read() would fill them. Valid until the next
  // view. Only one thread may call it.
  virtual absl::StatusOr<std::span<const std::byte>> view(std::uint64_t address,
                                                          std::size_t bytes) const = 0;
};

// A reader that can also change that memory. Code that only reads takes a MemoryReader.
class WritableMemory : public MemoryReader {
 public:
  // Writes all of bytes; when it fails, some may be written.
  virtual absl::Status write(std::uint64_t address, std::span<const std::byte> bytes) const = 0;

  template <typename T>
  absl::Status write_value(std::uint64_t address, const T& value) const {
    return write(address, std::as_bytes(std::span<const T, 1>(&value, 1)));
  }
};

}  // namespace memprofd
