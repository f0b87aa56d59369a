// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/agent_owner.h"

#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Far longer than the time between reading the token and writing it.
constexpr std::chrono::milliseconds kSettleTime{20};

}  // namespace

absl::Status claim_agent(const AgentControl& agent, int pid) {
  RETURN_IF_ERROR(check_claim(agent, pid));
  RETURN_IF_ERROR(agent.give({.owner = OwnerToken::ours()}));
  std::this_thread::sleep_for(kSettleTime);
  return check_claim(agent, pid);
}

absl::Status check_claim(const AgentControl& agent, int pid) {
  OwnerToken token;
  RETURN_IF_ERROR(agent.read_owner(token));
  return check_owner(token, pid);
}

absl::Status check_owner(const OwnerToken& token, int pid) {
  const auto other = living_owner(token);
  return other ? already_profiled(pid, *other) : absl::OkStatus();
}

absl::Status already_profiled(int pid, int profiler) {
  const std::string name = ProcFs().comm(profiler).value_or("");
  return absl::AlreadyExistsError(absl::StrCat(
      "pid ", pid, " is already profiled by ", name == "memprofctl" ? name : "memprofd",
      profiler != 0 ? absl::StrCat(" (pid ", profiler, ")") : "",
      "; use that profiler, or stop it first"));
}

void release_agent(const AgentControl& agent) {
  OwnerToken token;
  if (!agent.read_owner(token).ok() || token != OwnerToken::ours()) return;
  (void)agent.give({.owner = OwnerToken()});
}

}  // namespace memprofd
