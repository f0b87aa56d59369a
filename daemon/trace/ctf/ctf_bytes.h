// SPDX-License-Identifier: Apache-2.0
// Little-endian fields and vints in a buffer.
//
// vint: 0 ... 252 in one byte; 253 + u16; 254 + u32; 255 + u64. Other readers
// extend the sign of the u32, so it is used below 2^31 only.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace memprofd::ctf {

static_assert(std::endian::native == std::endian::little, "fields are copied as they are");

// Writes into memory of its owner. The caller checks remaining() before each put: a put beyond the
// end is a broken invariant.
class ByteWriter {
 public:
  ByteWriter() = default;
  explicit ByteWriter(std::span<std::byte> buffer) : buffer_(buffer) {}

  std::size_t size() const { return size_; }
  std::size_t remaining() const { return buffer_.size() - size_; }
  std::span<const std::byte> bytes() const { return buffer_.first(size_); }
  void clear() { size_ = 0; }

  template <typename T>
  void put(T value) {
    put_at(size_, value);
    size_ += sizeof value;
  }
  template <typename T>
  void put_at(std::size_t offset, T value) {
    std::memcpy(buffer_.subspan(offset, sizeof value).data(), &value, sizeof value);
  }
  // Room for a field that put_at fills in later; returns its offset.
  std::size_t skip(std::size_t bytes) {
    const std::size_t offset = size_;
    size_ += bytes;
    return offset;
  }
  // text must not contain NUL.
  void put_string(std::string_view text) {
    if (!text.empty())
      std::memcpy(buffer_.subspan(size_, text.size()).data(), text.data(), text.size());
    size_ += text.size();
    put<std::uint8_t>(0);
  }
  void put_vint(std::uint64_t value) {
    if (value <= 252) {
      put(static_cast<std::uint8_t>(value));
    } else if (value <= 0xFFFF) {
      put<std::uint8_t>(253);
      put(static_cast<std::uint16_t>(value));
    } else if (value <= 0x7FFF'FFFF) {
      put<std::uint8_t>(254);
      put(static_cast<std::uint32_t>(value));
    } else {
      put<std::uint8_t>(255);
      put(value);
    }
  }

 private:
  std::span<std::byte> buffer_;
  std::size_t size_ = 0;
};
inline constexpr std::size_t kMaxVintBytes = 9;

// Accepts any bytes: a get beyond the end returns zero or nothing, and ok() is false from then on.
class ByteReader {
 public:
  ByteReader() = default;
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool empty() const { return bytes_.empty(); }
  std::size_t remaining() const { return bytes_.size(); }
  std::span<const std::byte> rest() const { return bytes_; }
  void fail() {
    ok_ = false;
    bytes_ = {};
  }

  template <typename T>
  T get() {
    T value{};
    const std::span<const std::byte> field = take(sizeof value);
    if (!field.empty()) std::memcpy(&value, field.data(), sizeof value);
    return value;
  }
  std::span<const std::byte> take(std::size_t count) {
    if (count > bytes_.size()) {
      fail();
      return {};
    }
    const std::span<const std::byte> taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  // The result is valid as long as the bytes. Fails if it is longer than max_length.
  std::string_view get_string(std::size_t max_length) {
    const void* end = bytes_.empty() ? nullptr : std::memchr(bytes_.data(), 0, bytes_.size());
    if (end == nullptr) {
      fail();
      return {};
    }
    const auto length =
        static_cast<std::size_t>(static_cast<const std::byte*>(end) - bytes_.data());
    if (length > max_length) {
      fail();
      return {};
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), length);
    bytes_ = bytes_.subspan(length + 1);
    return text;
  }
  std::int64_t get_vint() {
    const auto first = get<std::uint8_t>();
    switch (first) {
      case 253:
        return get<std::uint16_t>();
      case 254:
        return get<std::int32_t>();
      case 255:
        return get<std::int64_t>();
      default:
        return first;
    }
  }
  // A vint that can only be a count.
  std::uint64_t get_count() {
    const std::int64_t value = get_vint();
    if (value < 0) fail();
    return value < 0 ? 0 : static_cast<std::uint64_t>(value);
  }

 private:
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace memprofd::ctf
