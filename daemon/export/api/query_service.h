// SPDX-License-Identifier: Apache-2.0
// Answers questions about the memory of targets: the one implementation behind
// gRPC, HTTP and the command line's trace files.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/export/api/answer_pages.h"
#include "daemon/history/profile.h"
#include "daemon/history/snapshot_source.h"
#include "daemon/model/discovery.h"
#include "daemon/model/requested_process.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

// Maximum bytes of a profile in one message of a stream.
inline constexpr std::size_t kProfilePieceBytes = 1 << 20;

// Options of a scraped profile.
struct ScrapeOptions {
  // By label of a target (kTargetLabels): selects targets that have one of the values of each name.
  std::multimap<std::string, std::string> labels;
  // The range begins at a time that the system clock showed after it was last set.
  bool system_clock = false;
  // Keeps pprof within kReceiverLimits.
  bool within_limits = false;
};

// Thread-safe. All calls: kNotFound if a pid is not a target, kInvalidArgument if a request is
// invalid.
class QueryService {
 public:
  // source must outlive this. answers: shared with other services, which therefore have one limit.
  // discovered: the result of the last search for programs; none for a file.
  explicit QueryService(
      SnapshotSource& source,
      std::shared_ptr<AnswerPages> answers = std::make_shared<AnswerPages>(),
      std::function<Discoveries()> discovered = [] { return Discoveries(); })
      : source_(source), answers_(std::move(answers)), discovered_(std::move(discovered)) {}

  // One page, as AnswerPages has it; the same holds for differences.
  absl::StatusOr<::memprof::v1::ListSitesResponse> list_sites(
      const ::memprof::v1::ListSitesRequest& request);
  // The first page only; nothing is kept for others.
  absl::StatusOr<::memprof::v1::ListSitesResponse> first_sites(
      const ::memprof::v1::ListSitesRequest& request);
  absl::StatusOr<::memprof::v1::DiffSitesResponse> diff_sites(
      const ::memprof::v1::DiffSitesRequest& request);
  absl::StatusOr<::memprof::v1::ListCallersResponse> list_callers(
      const ::memprof::v1::ListCallersRequest& request);

  absl::StatusOr<::memprof::v1::ListLeaksResponse> list_leaks(
      const ::memprof::v1::ListLeaksRequest& request);
  absl::StatusOr<::memprof::v1::GetHistoryResponse> get_history(
      const ::memprof::v1::GetHistoryRequest& request);
  absl::StatusOr<::memprof::v1::GetProfileResponse> get_profile(
      const ::memprof::v1::GetProfileRequest& request, const ScrapeOptions& options = {});
  // user: who asks; nothing: one who may see all programs. Targets are for everyone.
  ::memprof::v1::ListTargetsResponse list_targets(
      const ::memprof::v1::ListTargetsRequest& request = {},
      const std::optional<ProcessUser>& user = std::nullopt);
  // As SnapshotSource's.
  void mark_moment() { source_.mark_moment(); }

  // The profile from which the other answers are made.
  absl::StatusOr<TargetProfile> profile(const ::memprof::v1::Selection& selection);

 private:
  absl::StatusOr<::memprof::v1::ListSitesResponse> all_sites(
      const ::memprof::v1::ListSitesRequest& request);
  absl::StatusOr<::memprof::v1::DiffSitesResponse> all_diffs(
      const ::memprof::v1::DiffSitesRequest& request);
  absl::StatusOr<std::vector<TargetProfile>> profiles(
      const ::memprof::v1::GetProfileRequest& request, const ScrapeOptions& options);

  SnapshotSource& source_;
  const std::shared_ptr<AnswerPages> answers_;
  const std::function<Discoveries()> discovered_;
};

}  // namespace memprofd
