// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/heap_taking.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/agent_file.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/progress.h"
#include "daemon/ctl/snapshot/whole_image.h"
#include "daemon/export/api/heap_requests.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/snapshot/file/new_file.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

// Hands each piece of a snapshot of a process on; its first error ends the snapshot.
absl::StatusOr<pb::SnapshotSummary> take_own(
    OwnHeap& own, const pb::TakeHeapRequest& request,
    const std::function<absl::Status(std::string_view)>& use) {
  ASSIGN_OR_RETURN(const HeapContents contents, contents_of(request.contents()));
  ASSIGN_OR_RETURN(const HeapRequest asked, heap_request(request.snapshot(), contents));
  absl::Status used;
  const auto taken = own.take(asked, [&](std::string_view bytes) {
    used = use(bytes);
    return used.ok();
  });
  RETURN_IF_ERROR(used);
  return heap_answer(taken);
}

}  // namespace

absl::Status HeapTaking::begin(int pid, double rate) {
  if (!no_daemon_) return absl::OkStatus();
  ASSIGN_OR_RETURN(const AgentFile agent, open_agent_file(default_agent_path()));
  ASSIGN_OR_RETURN(own_, OwnHeap::open(pid, agent, rate, [this] { return !interrupted_; }));
  return absl::OkStatus();
}

void HeapTaking::interrupt() {
  interrupted_ = true;
  client_.interrupt();
}

absl::StatusOr<pb::TakeHeapRequest> HeapTaking::request(int pid,
                                                        const std::string& max_pause) const {
  pb::TakeHeapRequest request;
  if (!max_pause.empty()) {
    ASSIGN_OR_RETURN(const double seconds, parse_duration(max_pause));
    if (seconds == 0) {
      return absl::InvalidArgumentError(
          "--max-pause 0 allows no snapshot: give a time above 0, or omit it (default: 50ms)");
    }
    request.mutable_snapshot()->set_max_pause_seconds(seconds);
  }
  ASSIGN_OR_RETURN(const int chosen, pid_to_use(client_, pid, no_daemon_));
  request.mutable_snapshot()->set_pid(chosen);
  return request;
}

absl::StatusOr<pb::SnapshotSummary> HeapTaking::take(
    const pb::TakeHeapRequest& request,
    const std::function<absl::Status(std::string_view)>& use) const {
  const Progress progress(absl::StrCat("taking a snapshot of pid ", request.snapshot().pid()));
  if (own_ != nullptr) return take_own(*own_, request, use);
  std::optional<pb::SnapshotSummary> summary;
  const auto each = [&](const pb::TakeSnapshotResponse& response) {
    if (response.has_summary()) summary = response.summary();
    return use(response.data());
  };
  const bool wants_contents = request.contents() != pb::HEAP_CONTENTS_UNSPECIFIED;
  RETURN_IF_ERROR(wants_contents ? client_.take_heap(request, each)
                                 : client_.take_snapshot(request.snapshot(), each));
  if (!summary) return absl::CancelledError("interrupted: no snapshot was taken");
  return *std::move(summary);
}

absl::StatusOr<HeapImage> HeapTaking::take_image(const pb::TakeHeapRequest& request) const {
  ASSIGN_OR_RETURN(const NamelessFile file, NamelessFile::create());
  RETURN_IF_ERROR(
      take(request, [&](std::string_view bytes) { return file.write(bytes); }).status());
  return read_heap_image(file.path());
}

absl::StatusOr<HeapImage> HeapTaking::take_image(const pb::TakeHeapRequest& request,
                                                 const std::vector<std::string>& cmt,
                                                 SiteFrame site_frame) const {
  ASSIGN_OR_RETURN(HeapImage image, take_image(request));
  RETURN_IF_ERROR(add_types(image, cmt));
  image.site_frame = site_frame;
  return image;
}

}  // namespace memprofd::ctl
