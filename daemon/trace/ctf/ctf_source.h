// SPDX-License-Identifier: Apache-2.0
// The bytes of a trace, front to back: memory, or a file or pipe through a window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/util/fd.h"

namespace memprofd::ctf {

class ByteSource {
 public:
  // bytes stay valid as long as the source.
  explicit ByteSource(std::span<const std::byte> bytes) : window_(bytes) {}
  explicit ByteSource(UniqueFd fd) : fd_(std::move(fd)) {}
  ByteSource(ByteSource&&) = default;
  ByteSource& operator=(ByteSource&&) = default;

  // The next bytes, at least count or all that are left; valid until the next peek.
  std::span<const std::byte> peek(std::size_t count);
  // count: at most the number that the last peek returned.
  void skip(std::size_t count) {
    window_ = window_.subspan(count);
    offset_ += count;
  }
  std::uint64_t offset() const { return offset_; }
  // The error that ended the file early, if any.
  const absl::Status& status() const { return status_; }

 private:
  UniqueFd fd_;
  std::vector<std::byte> buffer_;
  std::span<const std::byte> window_;
  std::uint64_t offset_ = 0;
  bool at_end_ = false;
  absl::Status status_;
};

}  // namespace memprofd::ctf
