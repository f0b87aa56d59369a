// SPDX-License-Identifier: Apache-2.0
// Takes heap snapshots of a target for commands.
#pragma once

#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/ctl/client.h"
#include "daemon/ctl/commands.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd::ctl {

// Builds the request from the options, for a target that is already chosen.
absl::StatusOr<pb::TakeHeapRequest> snapshot_request(const Options& options, Client& client);
// Passes on the file piece by piece; it is complete if this succeeds. Shows progress on stderr.
// kCancelled: the client was interrupted.
absl::StatusOr<pb::SnapshotSummary> take_snapshot(
    Client& client, const pb::TakeHeapRequest& request,
    const std::function<absl::Status(std::string_view)>& use);
// Takes a snapshot without storing it; returns its image with the types and site frames of the
// options.
absl::StatusOr<HeapImage> take_image(Client& client, const pb::TakeHeapRequest& request,
                                     const Options& options);

}  // namespace memprofd::ctl
