// SPDX-License-Identifier: Apache-2.0
// Heaps that memprofd looks at itself, within its own memory: of snapshots that are taken for it,
// and of those that it keeps.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/export/api/control_service.h"
#include "daemon/export/clients/answer_turns.h"
#include "daemon/snapshot/answers/census_book.h"
#include "daemon/snapshot/file/heap_file_reader.h"
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
  // Censuses of the heaps that have been analysed.
  std::shared_ptr<const CensusBook> censuses() const { return censuses_; }
  // Has one taken, and looked at. Errors as of taking one; kResourceExhausted: the heap has too
  // much in it, or another one is being looked at. waits: whether somebody still waits for the
  // answer.
  absl::Status look_at_taken(ControlService& control,
                             const ::memprof::v1::TakeSnapshotRequest& request,
                             const AskedProcess& process, const std::function<bool()>& waits,
                             const Look& look);
  // Has these of the kept ones looked at, one after the other. Errors as of HeapFiles::path_of()
  // and read_heap_image(); kResourceExhausted as above.
  absl::Status look_at_kept(const std::vector<std::string>& names, const Look& look);
  // Has a kept one counted that nobody has asked about. kResourceExhausted: it has too much in it
  // for that; kUnavailable: another one is being looked at.
  absl::Status count_kept(const std::string& name);

 private:
  // Those that nobody waits for take less memory.
  static constexpr ImageLimits kUnasked{.blocks = 3'000'000, .pointers = 30'000'000};
  // Time for which a caller waits for earlier analyses.
  static constexpr std::chrono::seconds kPatience{10};

  absl::StatusOr<AnswerTurns::Turn> my_turn();
  void count(const HeapImage& image);

  const HeapFiles kept_;
  const GuardedTypes types_;
  const std::shared_ptr<CensusBook> censuses_ = std::make_shared<CensusBook>();
  AnswerTurns one_at_a_time_{{.at_once = 1, .waiting = 16, .patience = kPatience}};
};

}  // namespace memprofd
