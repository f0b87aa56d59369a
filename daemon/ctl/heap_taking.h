// SPDX-License-Identifier: Apache-2.0
// Takes heap snapshots of a target for commands.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/ctl/client.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd::ctl {

// A request without contents. pid, max_pause: as on the command line, where both may be omitted.
absl::StatusOr<pb::TakeHeapRequest> snapshot_request(int pid, const std::string& max_pause,
                                                     Client& client);
// Passes on the file piece by piece; it is complete if this succeeds. Shows progress on stderr.
// kCancelled: the client was interrupted.
absl::StatusOr<pb::SnapshotSummary> take_snapshot(
    Client& client, const pb::TakeHeapRequest& request,
    const std::function<absl::Status(std::string_view)>& use);
// Takes a snapshot without storing it; returns its image with types, also from the places in cmt,
// and with sites named by these frames.
absl::StatusOr<HeapImage> take_image(Client& client, const pb::TakeHeapRequest& request,
                                     const std::vector<std::string>& cmt, SiteFrame site_frame);

}  // namespace memprofd::ctl
