// SPDX-License-Identifier: Apache-2.0
// Analyses heaps within memprofd's own memory: snapshots that are taken for an answer, and stored
// ones.
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
#include "daemon/snapshot/answers/census_store.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/snapshot/file/heap_files.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/snapshot/types/guarded_types.h"
#include "daemon/util/clock.h"

namespace memprofd {

// Limits for a heap: its blocks take about 40 bytes each, its pointers 5 bytes each.
inline constexpr std::uint64_t kMaxInnerBlocks = 10'000'000;
inline constexpr std::uint64_t kMaxInnerPointers = 10 * kMaxInnerBlocks;

// Thread-safe; analyses one heap at a time, with types of the source if they are found.
class HeapAnalyser {
 public:
  using Analysis = std::function<absl::Status(HeapImage& image)>;

  // cmt: places to search for compiler files besides the usual ones.
  explicit HeapAnalyser(HeapFilesOptions kept = {}, std::vector<std::string> cmt = {})
      : kept_(std::move(kept)), types_(std::move(cmt)) {}

  const HeapFiles& kept() const { return kept_; }
  // Censuses of the heaps that have been analysed, with the program's assertions. The log has the
  // violations.
  std::shared_ptr<const CensusStore> censuses() const { return censuses_; }
  // Takes a snapshot and analyses it. Errors are those of taking one; kResourceExhausted: the heap
  // is too large, or another one is being analysed. waits: whether a client still waits for the
  // answer.
  absl::Status analyse_taken(ControlService& control,
                             const ::memprof::v1::TakeSnapshotRequest& request,
                             const RequestedProcess& process, const std::function<bool()>& waits,
                             const Analysis& analysis);
  // Analyses stored heaps, one after the other. Errors are those of HeapFiles::path_of() and
  // read_heap_image(), and kResourceExhausted as above.
  absl::Status analyse_kept(const std::vector<std::string>& names, const Analysis& analysis);
  // Counts a stored heap that no client has asked about. kResourceExhausted: it is too large for
  // that; kUnavailable: another one is being analysed.
  absl::Status count_kept(const std::string& name);

 private:
  // Limits for heaps that no client waits for.
  static constexpr ImageLimits kUnasked{.blocks = 3'000'000, .pointers = 30'000'000};
  // Time for which a caller waits for earlier analyses.
  static constexpr std::chrono::seconds kPatience{10};

  absl::StatusOr<AnswerTurns::Turn> my_turn();
  void count(const HeapImage& image);

  const HeapFiles kept_;
  const GuardedTypes types_;
  const std::int64_t began_unix_ns_ = static_cast<std::int64_t>(realtime_ns());
  const std::shared_ptr<CensusStore> censuses_ = std::make_shared<CensusStore>();
  AnswerTurns one_at_a_time_{{.at_once = 1, .waiting = 16, .patience = kPatience}};
};

}  // namespace memprofd
