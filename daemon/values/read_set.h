// SPDX-License-Identifier: Apache-2.0
// The words of which a value was made: as long as all of them are unchanged, so is the value, which
// need not be built again. Bounded; a value of more words is always built again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/discover/target.h"

namespace memprofd {

class ReadSet {
 public:
  static constexpr std::size_t kMaxParts = 256;
  static constexpr std::size_t kMaxBytes = 4096;

  // Records bytes that were read, or that they could not be read; in the order of reading.
  void add(std::uint64_t address, std::span<const std::byte> bytes, bool is_there);
  // Adds a block's header, whose colour is ignored, because the collector changes it without
  // changing the value.
  void add_header(std::uint64_t address, std::uint64_t header, bool is_there);
  bool is_known() const { return is_all_ && !parts_.empty(); }
  // True if there is a read set and memory still holds it.
  bool is_in(const MemoryReader& memory) const;
  // Adds an address on each page that it occupies, in order.
  void add_places(std::vector<std::uint64_t>& places) const;
  // Adds the ranges of its parts.
  void add_ranges(std::vector<AddressRange>& ranges) const;

 private:
  struct Part {
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
    bool is_there = false;
    std::uint64_t end() const { return address + bytes; }
  };
  bool continues(std::uint64_t address, std::size_t bytes, bool is_there);

  // Inline capacity suffices for a reference to a number.
  absl::InlinedVector<Part, 2> parts_;
  absl::InlinedVector<std::byte, 24> held_;        // contents of the existing parts
  absl::InlinedVector<std::uint16_t, 2> headers_;  // positions in held_, in order
  bool is_all_ = true;
};

// Memory whose reads are recorded in a read set.
class RecordingReader final : public MemoryReader {
 public:
  // Both must outlive this.
  RecordingReader(const MemoryReader& memory, ReadSet& read_set)
      : memory_(memory), read_set_(read_set) {}
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    absl::Status status = memory_.read(address, out);
    read_set_.add(address, out, status.ok());
    return status;
  }
  absl::Status read_header(std::uint64_t address, std::uint64_t& header) const {
    absl::Status status = memory_.read_value(address, header);
    read_set_.add_header(address, header, status.ok());
    return status;
  }

 private:
  const MemoryReader& memory_;
  ReadSet& read_set_;
};

}  // namespace memprofd
