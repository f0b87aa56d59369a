// SPDX-License-Identifier: Apache-2.0
// Numbers and texts in the pieces of a heap file. A varint has 7 bits per byte, the lowest first;
// the highest bit is set if another byte follows. A signed varint is zigzag-encoded (0, -1, 1, ..).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace memprofd {

class FileBytesWriter {
 public:
  void put_byte(std::uint8_t value) {
    *room_for(1) = static_cast<char>(value);
    ++size_;
  }
  void put(std::uint64_t value) { Numbers(*this, 1).put(value); }
  void put_signed(std::int64_t value) { Numbers(*this, 1).put_signed(value); }
  void put_word(std::uint64_t value) {
    std::memcpy(room_for(sizeof value), &value, sizeof value);
    size_ += sizeof value;
  }
  void put_double(double value) { put_word(std::bit_cast<std::uint64_t>(value)); }
  void put_text(std::string_view text) {
    put(text.size());
    std::ranges::copy(text, room_for(text.size()));
    size_ += text.size();
  }
  // Valid until more is put in.
  std::string_view bytes() const { return std::string_view(bytes_).substr(0, size_); }
  std::size_t size() const { return size_; }
  // Writes several numbers after reserving room once.
  class Numbers {
   public:
    Numbers(FileBytesWriter& out, std::size_t most)
        : out_(out), at_(out.room_for(most * kMaxNumberBytes)) {}
    ~Numbers() { out_.size_ = static_cast<std::size_t>(at_ - out_.bytes_.data()); }
    Numbers(const Numbers&) = delete;
    Numbers& operator=(const Numbers&) = delete;

    void put(std::uint64_t value) {
      for (; value >= 0x80; value >>= 7) *at_++ = static_cast<char>(value | 0x80);
      *at_++ = static_cast<char>(value);
    }
    void put_signed(std::int64_t value) {
      put(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
    }

   private:
    FileBytesWriter& out_;
    char* at_;
  };
  void clear() { size_ = 0; }

 private:
  static constexpr std::size_t kMaxNumberBytes = 10;

  char* room_for(std::size_t bytes) {
    if (bytes_.size() - size_ < bytes) bytes_.resize(2 * (size_ + bytes));
    return bytes_.data() + size_;
  }

  std::string bytes_;  // bytes beyond size_ are spare room
  std::size_t size_ = 0;
};

// Safe for any input: missing data reads as 0 or empty, and ok() is false from then on.
class FileBytesReader {
 public:
  explicit FileBytesReader(std::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool done() const { return !ok_ || at_ == bytes_.size(); }

  std::uint8_t byte() {
    if (at_ == bytes_.size()) return fail();
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }
  std::uint64_t number() {
    std::uint64_t value = byte();
    if (value < 0x80) return value;
    value &= 0x7f;
    for (int shift = 7; shift < 64; shift += 7) {
      const std::uint64_t next = byte();
      value |= (next & 0x7f) << shift;
      if (next < 0x80) return value;
    }
    return fail();
  }
  std::int64_t signed_number() {
    const std::uint64_t value = number();
    return static_cast<std::int64_t>(value >> 1 ^ (~(value & 1) + 1));
  }
  double real() { return std::bit_cast<double>(word()); }
  std::uint64_t word() {
    std::uint64_t value = 0;
    if (bytes_.size() - at_ < sizeof value) return fail();
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string_view text() {
    const std::uint64_t size = number();
    if (size > bytes_.size() - at_) {
      fail();
      return {};
    }
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  // Makes ok() false from now on.
  std::uint8_t fail() {
    ok_ = false;
    at_ = bytes_.size();
    return 0;
  }

 private:
  static_assert(std::endian::native == std::endian::little, "words are copied as they are");

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace memprofd
