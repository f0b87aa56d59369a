// SPDX-License-Identifier: Apache-2.0
// The source of a command's answers: a running memprofd, or a trace file. Answers are the same
// messages, so all renderings serve both.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "daemon/ctl/client.h"
#include "daemon/ctl/selection_spec.h"
#include "daemon/history/snapshot_source.h"

namespace memprofd::ctl {

class Questions {
 public:
  virtual ~Questions() = default;
  virtual absl::StatusOr<pb::ListTargetsResponse> list_targets() = 0;
  virtual absl::StatusOr<pb::ListSitesResponse> list_sites(const pb::ListSitesRequest&) = 0;
  virtual absl::StatusOr<pb::DiffSitesResponse> diff_sites(const pb::DiffSitesRequest&) = 0;
  virtual absl::StatusOr<pb::ListCallersResponse> list_callers(const pb::ListCallersRequest&) = 0;
  virtual absl::StatusOr<pb::ListLeaksResponse> list_leaks(const pb::ListLeaksRequest&) = 0;
  virtual absl::StatusOr<pb::GetHistoryResponse> get_history(const pb::GetHistoryRequest&) = 0;
  virtual absl::StatusOr<pb::GetProfileResponse> get_profile(const pb::GetProfileRequest&) = 0;
  virtual absl::StatusOr<pb::GetValueHistoryResponse> get_value_history(
      const pb::GetValueHistoryRequest&) = 0;
  // Abandons the current question if it may take long, and all later ones. Callable from any
  // thread.
  virtual void interrupt() {}
};

// All rows, page by page. If memprofd drops the answer meanwhile, the question is repeated.
absl::StatusOr<pb::ListSitesResponse> all_sites(Questions& source, pb::ListSitesRequest request);
absl::StatusOr<pb::DiffSitesResponse> all_diffs(Questions& source, pb::DiffSitesRequest request);

// Reads the file at once, and reports damage on stderr.
absl::StatusOr<std::unique_ptr<Questions>> ask_file(const std::string& path);
std::unique_ptr<Questions> ask_daemon(const Endpoint& endpoint);
// source must outlive the answer.
std::unique_ptr<Questions> ask_source(SnapshotSource& source);

// A source, and the pid of one of its targets.
struct QuestionTarget {
  std::unique_ptr<Questions> source;
  int pid = 0;
};
absl::StatusOr<QuestionTarget> ask(const TargetSpec& target, const Endpoint& endpoint);

}  // namespace memprofd::ctl
