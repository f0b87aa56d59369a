// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/kernel_captures.h"

#include <map>

#include "daemon/util/threads/mutex.h"

namespace memprofd {
namespace {

struct Counts {
  Mutex mutex;
  std::map<std::uint64_t, std::size_t> of_program ABSL_GUARDED_BY(mutex);  // by inode
};

Counts& counts() {
  static Counts counts;
  return counts;
}

bool count(const FileId& program, bool bounded) {
  const MutexLock lock(counts().mutex);
  std::size_t& taken = counts().of_program[program.inode];
  if (bounded && taken >= kMaxKernelCaptures) return false;
  ++taken;
  return true;
}

}  // namespace

std::optional<KernelCapture> KernelCapture::take(const FileId& program) {
  if (!count(program, true)) return std::nullopt;
  return KernelCapture(program.inode);
}

KernelCapture KernelCapture::take_over_limit(const FileId& program) {
  (void)count(program, false);
  return KernelCapture(program.inode);
}

KernelCapture::~KernelCapture() {
  if (!counted_) return;
  const MutexLock lock(counts().mutex);
  const auto found = counts().of_program.find(inode_);
  if (--found->second == 0) counts().of_program.erase(found);
}

}  // namespace memprofd
