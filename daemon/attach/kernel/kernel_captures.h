// SPDX-License-Identifier: Apache-2.0
// How many targets of one program the kernel captures. Every one has a consumer at the same place
// of the same file, and the kernel calls them all at each sample of any, 25 to 45 ns each, to
// find out whose it is. With a bound on their number a sample's cost does not grow with the
// number of targets: the runtime captures for the rest, which puts no probe there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "daemon/util/file_id.h"

namespace memprofd {

inline constexpr std::size_t kMaxKernelCaptures = 8;  // of a program

// One of a program's captures by the kernel, counted while it lives. On any thread. Programs are
// told apart by inode alone: each container sees the file of a common image on a device of its own.
// Two that share a number by chance share the bound.
class KernelCapture {
 public:
  // Nothing when there are as many as there may be.
  static std::optional<KernelCapture> take(const FileId& program);
  // Also beyond that number.
  static KernelCapture insist(const FileId& program);
  KernelCapture(KernelCapture&& other) noexcept
      : inode_(other.inode_), counted_(std::exchange(other.counted_, false)) {}
  KernelCapture& operator=(KernelCapture&& other) noexcept {
    std::swap(inode_, other.inode_);
    std::swap(counted_, other.counted_);
    return *this;
  }
  ~KernelCapture();

 private:
  explicit KernelCapture(std::uint64_t inode) : inode_(inode) {}

  std::uint64_t inode_;
  bool counted_ = true;
};

}  // namespace memprofd
