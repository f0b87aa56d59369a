// SPDX-License-Identifier: Apache-2.0
// A program's memory from bytes: regions, each (u32 length, u64 address, bytes).
#pragma once

#include <cstdint>
#include <span>

#include "daemon/discover/memory_reader.h"
#include "daemon/discover/proc_fs.h"
#include "tests/fuzz/fuzz_target.h"

namespace memprofd::fuzz {

class FuzzMemory : public MemoryReader {
 public:
  static constexpr std::size_t kMaxRegions = 8;

  // After most_reads reads nothing can be read, as after a timeout.
  explicit FuzzMemory(Input& input, std::uint64_t most_reads = ~std::uint64_t{0})
      : reads_left_(most_reads) {
    while (!input.rest().empty() && spans_.size() < kMaxRegions) {
      const auto length = input.take<std::uint32_t>();
      const auto address = input.take<std::uint64_t>();
      const std::string_view bytes = input.take_bytes(length);
      // The kernel has no mapping that wraps around.
      if (address > ~bytes.size()) continue;
      spans_.push_back({address, {bytes.begin(), bytes.end()}});
    }
  }

  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    if (reads_left_ == 0) return absl::DeadlineExceededError("no time is left");
    --reads_left_;
    for (const AddressSpan& span : spans_) {
      const std::uint64_t at = address - span.begin;
      if (address < span.begin || at > span.bytes.size() || out.size() > span.bytes.size() - at) {
        continue;
      }
      if (!out.empty()) std::memcpy(out.data(), span.bytes.data() + at, out.size());
      return absl::OkStatus();
    }
    return absl::OutOfRangeError("not mapped");
  }

  // Readable and writable mappings without a file.
  std::vector<Mapping> mappings() const {
    std::vector<Mapping> all;
    for (const AddressSpan& span : spans_) {
      all.push_back({.begin = span.begin,
                     .end = span.begin + span.bytes.size(),
                     .readable = true,
                     .writable = true});
    }
    return all;
  }

 private:
  struct AddressSpan {
    std::uint64_t begin = 0;
    std::vector<char> bytes;
  };
  std::vector<AddressSpan> spans_;
  mutable std::uint64_t reads_left_;
};

inline void put_region(std::string& out, std::uint64_t address, std::string_view bytes) {
  put(out, static_cast<std::uint32_t>(bytes.size()));
  put(out, address);
  out += bytes;
}

// Appends everything that a test has built.
template <typename Memory>
void put_region(std::string& out, const Memory& memory) {
  std::string bytes(memory.end() - memory.base(), '\0');
  require(memory.read(memory.base(), std::as_writable_bytes(std::span(bytes))).ok(), "no memory");
  put_region(out, memory.base(), bytes);
}

}  // namespace memprofd::fuzz
