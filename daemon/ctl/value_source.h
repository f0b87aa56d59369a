// SPDX-License-Identifier: Apache-2.0
// Where a command's values come from: memprofd, or this process (--no-daemon).
#pragma once

#include <atomic>
#include <optional>

#include "absl/status/statusor.h"
#include "daemon/ctl/client.h"
#include "daemon/run/own_values.h"

namespace memprofd::ctl {

class ValueSource {
 public:
  // client must outlive it. no_daemon: this process reads them, from a process of the same user.
  ValueSource(Client& client, bool no_daemon) : client_(client), no_daemon_(no_daemon) {}

  // Call this first. Without memprofd, errors of OwnValues::open(). Returns the process; pid: as on
  // the command line, where it may be omitted with memprofd.
  absl::StatusOr<int> open(int pid);
  absl::StatusOr<pb::ListValuesResponse> list(const pb::ListValuesRequest& request);
  // Any thread: gives up what is under way.
  void interrupt();

 private:
  Client& client_;
  const bool no_daemon_;
  std::optional<OwnValues> own_;
  std::atomic<bool> interrupted_ = false;
};

}  // namespace memprofd::ctl
