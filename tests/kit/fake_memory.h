// SPDX-License-Identifier: Apache-2.0
// A memory region built by a test.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "daemon/discover/memory_reader.h"

namespace memprofd {

class FakeMemory : public MemoryReader {
 public:
  explicit FakeMemory(std::uint64_t base) : base_(base) {}

  std::uint64_t base() const { return base_; }
  std::uint64_t end() const { return base_ + bytes_.size(); }
  // Appends a value and returns its address.
  template <typename T>
  std::uint64_t put(T value) {
    const std::uint64_t at = end();
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
    return at;
  }
  std::uint64_t put_string(const std::string& text) {
    const std::uint64_t at = end();
    for (const char c : text) put(c);
    put('\0');
    return at;
  }
  // Appends an OCaml block, header and fields; returns the address of the first field.
  std::uint64_t put_block(unsigned tag, const std::vector<std::uint64_t>& fields) {
    put<std::uint64_t>(fields.size() << 10 | tag);
    const std::uint64_t address = end();
    for (const std::uint64_t field : fields) put(field);
    return address;
  }
  void align(std::size_t to) {
    while (end() % to != 0) put(std::byte{0});
  }
  template <typename T>
  void poke(std::uint64_t address, T value) {
    std::memcpy(bytes_.data() + (address - base_), &value, sizeof value);
  }
  void truncate(std::size_t bytes) { bytes_.resize(bytes); }

  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    if (address < base_ || address - base_ > bytes_.size() ||
        out.size() > bytes_.size() - (address - base_)) {
      return absl::OutOfRangeError("not mapped");
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + (address - base_), out.size());
    ++reads;
    return absl::OkStatus();
  }
  mutable int reads = 0;

 private:
  std::uint64_t base_;
  std::vector<std::byte> bytes_;
};

}  // namespace memprofd
