// SPDX-License-Identifier: Apache-2.0
// Limits the number of targets of one program that use kernel capture. Each of them has a consumer
// at the same place of the same file, and at each sample of any of them the kernel calls all
// consumers, 25 to 45 ns each. With a limit the cost of a sample does not grow with the number of
// targets; the rest use runtime capture, which has no probe there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "daemon/util/file_id.h"

namespace memprofd {

inline constexpr std::size_t kMaxKernelCaptures = 8;  // per program

// A kernel capture of a program, counted while it exists. Any thread. Programs are distinguished by
// inode alone, because each container sees the file of a common image on a device of its own. Two
// programs that share an inode number by chance share the limit.
class KernelCapture {
 public:
  // Returns nullopt if the limit is reached.
  static std::optional<KernelCapture> take(const FileId& program);
  // Succeeds even beyond that limit.
  static KernelCapture take_over_limit(const FileId& program);
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
