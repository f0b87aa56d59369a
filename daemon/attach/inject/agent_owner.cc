// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/agent_owner.h"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Far longer than from a look at the token to the write.
constexpr std::chrono::milliseconds kSettleTime{20};

// FNV-1a of the kernel's id of this boot.
std::uint32_t boot_hash(const std::string& proc_root) {
  std::ifstream file(proc_root + "/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  std::uint32_t hash = 2166136261;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return hash;
}

absl::Status of_another(int pid, int owner) {
  return absl::AlreadyExistsError(absl::StrCat("pid ", pid,
                                               " is already profiled by memprofd (pid ", owner,
                                               "); ask that one, or stop it first"));
}

}  // namespace

OwnerToken OwnerToken::of(int pid, const std::string& proc_root) {
  const auto start = ProcFs(proc_root).start_time(pid);
  if (!start.ok()) return {};
  const std::uint64_t boot = boot_hash(proc_root);
  return {boot << 32 | static_cast<std::uint32_t>(pid), *start};
}

const OwnerToken& OwnerToken::ours() {
  static const OwnerToken token = of(::getpid());
  return token;
}

std::optional<int> living_owner(const OwnerToken& token, const std::string& proc_root) {
  if (token == OwnerToken() || token == OwnerToken::ours()) return std::nullopt;
  if (OwnerToken::of(token.pid(), proc_root) != token) return std::nullopt;
  return token.pid();
}

absl::Status claim_agent(const AgentControl& agent, int pid, Claim how) {
  RETURN_IF_ERROR(check_claim(agent, pid));
  RETURN_IF_ERROR(agent.set_owner(OwnerToken::ours()));
  if (how == Claim::kAtOnce) return absl::OkStatus();
  std::this_thread::sleep_for(kSettleTime);
  return check_claim(agent, pid);
}

absl::Status check_claim(const AgentControl& agent, int pid) {
  OwnerToken token;
  RETURN_IF_ERROR(agent.read_owner(token));
  const auto other = living_owner(token);
  return other ? of_another(pid, *other) : absl::OkStatus();
}

void release_agent(const AgentControl& agent) {
  OwnerToken token;
  if (!agent.read_owner(token).ok() || token != OwnerToken::ours()) return;
  (void)agent.set_owner(OwnerToken());
}

}  // namespace memprofd
