// SPDX-License-Identifier: Apache-2.0
// Move-only owner of a shared mapping of a file descriptor.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace memprofd {

class MappedPages {
 public:
  MappedPages() = default;
  // protection is PROT_READ with or without PROT_WRITE; `what` names the memory in errors.
  static absl::StatusOr<MappedPages> map(int fd, std::size_t bytes, int protection,
                                         std::size_t offset, const char* what) {
    void* data = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, static_cast<off_t>(offset));
    if (data == MAP_FAILED)
      return absl::ResourceExhaustedError(absl::StrCat("cannot map ", what, " (", bytes,
                                                       " bytes): ", std::strerror(errno),
                                                       "; free memory or raise the memory limit"));
    return MappedPages(data, bytes);
  }
  MappedPages(MappedPages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedPages& operator=(MappedPages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedPages() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  MappedPages(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace memprofd
