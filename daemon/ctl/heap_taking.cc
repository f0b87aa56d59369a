// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/heap_taking.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/progress.h"
#include "daemon/ctl/snapshot/whole_image.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/snapshot/file/new_file.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {

absl::StatusOr<pb::TakeHeapRequest> snapshot_request(int pid, const std::string& max_pause,
                                                     Client& client) {
  pb::TakeHeapRequest request;
  if (!max_pause.empty()) {
    ASSIGN_OR_RETURN(const double seconds, parse_duration(max_pause));
    if (seconds == 0) {
      return absl::InvalidArgumentError(
          "--max-pause 0 would allow none: give a time above 0, or leave it out for 50ms");
    }
    request.mutable_snapshot()->set_max_pause_seconds(seconds);
  }
  ASSIGN_OR_RETURN(const int chosen, pid_to_use(client, pid));
  request.mutable_snapshot()->set_pid(chosen);
  return request;
}

absl::StatusOr<pb::SnapshotSummary> take_snapshot(
    Client& client, const pb::TakeHeapRequest& request,
    const std::function<absl::Status(std::string_view)>& use) {
  const Progress progress(absl::StrCat("taking a snapshot of pid ", request.snapshot().pid()));
  std::optional<pb::SnapshotSummary> summary;
  const auto each = [&](const pb::TakeSnapshotResponse& response) {
    if (response.has_summary()) summary = response.summary();
    return use(response.data());
  };
  const bool wants_contents = request.contents() != pb::HEAP_CONTENTS_UNSPECIFIED;
  RETURN_IF_ERROR(wants_contents ? client.take_heap(request, each)
                                 : client.take_snapshot(request.snapshot(), each));
  if (!summary) return absl::CancelledError("interrupted: no snapshot was taken");
  return *std::move(summary);
}

absl::StatusOr<HeapImage> take_image(Client& client, const pb::TakeHeapRequest& request,
                                     const std::vector<std::string>& cmt, SiteFrame site_frame) {
  ASSIGN_OR_RETURN(const NamelessFile file, NamelessFile::create());
  RETURN_IF_ERROR(take_snapshot(client, request, [&](std::string_view bytes) {
                    return file.write(bytes);
                  }).status());
  ASSIGN_OR_RETURN(HeapImage image, read_heap_image(file.path()));
  RETURN_IF_ERROR(add_types(image, cmt));
  image.site_frame = site_frame;
  return image;
}

}  // namespace memprofd::ctl
