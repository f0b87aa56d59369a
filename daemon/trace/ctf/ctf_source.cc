// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/ctf/ctf_source.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace memprofd::ctf {
namespace {

constexpr std::size_t kWindowBytes = std::size_t{256} * 1024;

}  // namespace

std::span<const std::byte> ByteSource::peek(std::size_t count) {
  if (window_.size() >= count || !fd_ || at_end_) return window_;
  if (buffer_.empty()) buffer_.resize(kWindowBytes);
  count = std::min(count, buffer_.size());
  std::copy(window_.begin(), window_.end(), buffer_.begin());
  std::size_t filled = window_.size();
  while (filled < count && !at_end_) {
    const ssize_t got = ::read(fd_.get(), buffer_.data() + filled, buffer_.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status_ = absl::ErrnoToStatus(errno, "reading");
    at_end_ = got <= 0;
    if (got > 0) filled += static_cast<std::size_t>(got);
  }
  window_ = std::span<const std::byte>(buffer_).first(filled);
  return window_;
}

}  // namespace memprofd::ctf
