// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/attached_target.h"

#include "absl/strings/cord.h"

namespace memprofd {
namespace {

constexpr char kMark[] = "memprofd/no-agent-possible";

}  // namespace

absl::Status no_agent_possible(const absl::Status& status) {
  absl::Status marked = status;
  if (!marked.ok()) marked.SetPayload(kMark, absl::Cord());
  return marked;
}

bool is_no_agent_possible(const absl::Status& status) {
  return status.GetPayload(kMark).has_value();
}

}  // namespace memprofd
