// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/owner_token.h"

#include <unistd.h>

#include <fstream>

#include "daemon/discover/proc_fs.h"

namespace memprofd {
namespace {

// FNV-1a of the kernel's id of this boot.
std::uint32_t boot_hash(const std::string& proc_root) {
  std::ifstream file(proc_root + "/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  std::uint32_t hash = 2166136261;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return hash;
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

}  // namespace memprofd
