// SPDX-License-Identifier: Apache-2.0
// Heaps that memprofd looks at itself, within its own memory: of snapshots that are taken for it,
// and of those that it keeps.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/export/api/control_service.h"
#include "daemon/snapshot/file/heap_files.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/snapshot/types/guarded_types.h"

namespace memprofd {

// Blocks of a heap, about 40 bytes each, and pointers, 5 bytes each.
inline constexpr std::uint64_t kMostInnerBlocks = 10'000'000;
inline constexpr std::uint64_t kMostInnerPointers = 10 * kMostInnerBlocks;

// Thread-safe; one heap at a time is looked at, with types of the source where they are at hand.
class InnerHeaps {
 public:
  using Look = std::function<absl::Status(HeapImage& image)>;

  // cmt: where files of compilers are looked for besides the usual places.
  explicit InnerHeaps(HeapFilesOptions kept = {}, std::vector<std::string> cmt = {})
      : kept_(std::move(kept)), types_(std::move(cmt)) {}

  const HeapFiles& kept() const { return kept_; }
  // Has one taken, and looked at. Errors as of taking one; kResourceExhausted: the heap has too
  // much in it, or another one is being looked at. waits: whether somebody still waits for the
  // answer.
  absl::Status look_at_taken(ControlService& control,
                             const ::memprof::v1::TakeSnapshotRequest& request,
                             const std::function<bool()>& waits, const Look& look);
  // Has these of the kept ones looked at, one after the other. Errors as of HeapFiles::path_of()
  // and read_heap_image(); kResourceExhausted as above.
  absl::Status look_at_kept(const std::vector<std::string>& names, const Look& look);

 private:
  const HeapFiles kept_;
  const GuardedTypes types_;
  std::mutex one_at_a_time_;
};

}  // namespace memprofd
