// SPDX-License-Identifier: Apache-2.0
// Memory that a server writes and memprofd reads: what goes through it is copied once.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/discover/memory/memory_server.h"
#include "daemon/util/fd.h"

namespace memprofd {

class MemoryWindow {
 public:
  // kResourceExhausted: there is no memory or descriptor for it.
  static absl::StatusOr<MemoryWindow> make() {
    MemoryWindow window;
    window.file_ = UniqueFd(::memfd_create("memprofd-window", MFD_CLOEXEC));
    if (!window.file_ || ::ftruncate(window.file_.get(), kMemoryWindowBytes) != 0) return failed();
    void* const data =
        ::mmap(nullptr, kMemoryWindowBytes, PROT_READ, MAP_SHARED, window.file_.get(), 0);
    if (data == MAP_FAILED) return failed();
    window.data_ = static_cast<const std::byte*>(data);
    return window;
  }
  MemoryWindow(MemoryWindow&& other) noexcept
      : file_(std::move(other.file_)), data_(std::exchange(other.data_, nullptr)) {}
  MemoryWindow& operator=(MemoryWindow&&) = delete;
  ~MemoryWindow() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), kMemoryWindowBytes);
  }

  // Transfers the file to a server.
  UniqueFd take_file() { return std::move(file_); }
  std::span<const std::byte> bytes() const { return {data_, kMemoryWindowBytes}; }

 private:
  MemoryWindow() = default;
  static absl::Status failed() {
    return absl::ResourceExhaustedError("no memory, or no descriptor, to map memory");
  }

  UniqueFd file_;
  const std::byte* data_ = nullptr;
};

}  // namespace memprofd
