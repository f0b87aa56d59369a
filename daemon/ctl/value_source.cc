// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/value_source.h"

#include "daemon/ctl/commands.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {

absl::StatusOr<int> ValueSource::open(int pid) {
  ASSIGN_OR_RETURN(const int chosen, pid_to_use(client_, pid, no_daemon_));
  if (no_daemon_) {
    ASSIGN_OR_RETURN(own_, OwnValues::open(chosen));
  }
  return chosen;
}

absl::StatusOr<pb::ListValuesResponse> ValueSource::list(const pb::ListValuesRequest& request) {
  if (!own_) return client_.list_values(request);
  return own_->list(request, [this] { return !interrupted_; });
}

void ValueSource::interrupt() {
  interrupted_ = true;
  client_.interrupt();
}

}  // namespace memprofd::ctl
