// SPDX-License-Identifier: Apache-2.0
// Takes heap snapshots of a target for commands: through memprofd, or by this process alone
// (--no-daemon).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/ctl/client.h"
#include "daemon/run/own_heap.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd::ctl {

// Takes a command's snapshots. Owned by one thread.
class HeapTaking {
 public:
  // client must outlive it. no_daemon: this process takes them, of a process of the same user.
  HeapTaking(Client& client, bool no_daemon) : client_(client), no_daemon_(no_daemon) {}
  HeapTaking(const HeapTaking&) = delete;
  HeapTaking& operator=(const HeapTaking&) = delete;

  // Call this first. Without memprofd, has the process load the agent; rate: samples per word.
  absl::Status begin(int pid, double rate = kCopyRate);
  // Enough samples to copy a program that works soon: most allocate a thousand words in no time.
  static constexpr double kCopyRate = 1e-3;
  // Any thread: gives up what is under way.
  void interrupt();
  // Null if memprofd takes them.
  OwnHeap* own() const { return own_.get(); }

  // A request without contents. pid, max_pause: as on the command line, where both may be omitted.
  absl::StatusOr<pb::TakeHeapRequest> request(int pid, const std::string& max_pause) const;
  // Passes on the file piece by piece; it is complete if this succeeds. Shows progress on stderr.
  // kCancelled: the client was interrupted.
  absl::StatusOr<pb::SnapshotSummary> take(
      const pb::TakeHeapRequest& request,
      const std::function<absl::Status(std::string_view)>& use) const;
  // Takes a snapshot without storing it; returns its image.
  absl::StatusOr<HeapImage> take_image(const pb::TakeHeapRequest& request) const;
  // The same with types, also from the places in cmt, and with sites named by these frames.
  absl::StatusOr<HeapImage> take_image(const pb::TakeHeapRequest& request,
                                       const std::vector<std::string>& cmt,
                                       SiteFrame site_frame) const;

 private:
  Client& client_;
  const bool no_daemon_;
  std::atomic<bool> interrupted_ = false;
  std::unique_ptr<OwnHeap> own_;
};

}  // namespace memprofd::ctl
