// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/process_owner.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "daemon/util/fd.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Folders of /proc are opened by descriptor: a file in one belongs to its process or cannot be
// opened.
constexpr char kOpenFolders[] = "/proc/self/fd";

// True if the user owns the user namespace of the process, and so has all capabilities in it.
bool owns_user_namespace(const UniqueFd& folder, uid_t uid) {
  const UniqueFd space(::openat(folder.get(), "ns/user", O_RDONLY | O_CLOEXEC));
  uid_t owner = 0;
  return space && ::ioctl(space.get(), NS_GET_OWNER_UID, &owner) == 0 && owner == uid;
}

// If a process cannot be dumped, the kernel makes root the owner of its files in /proc.
bool is_dumpable(const UniqueFd& folder, const ProcessUser& user) {
  struct stat file {};
  return ::fstatat(folder.get(), "status", &file, 0) == 0 && file.st_uid == user.uid &&
         file.st_gid == user.gid;
}

ProcessUser user_of(const ProcessStatus& status) { return {status.uids[0], status.gids[0]}; }

std::optional<ProcessUser> owner_of(const UniqueFd& folder, const ProcessStatus& status) {
  const ProcessUser user = user_of(status);
  const auto all_are = [](const auto& ids, auto id) {
    return std::ranges::all_of(ids, [id](auto other) { return other == id; });
  };
  if (!all_are(status.uids, user.uid) || !all_are(status.gids, user.gid)) return std::nullopt;
  const bool has_more_rights =
      status.permitted_capabilities != 0 && !owns_user_namespace(folder, user.uid);
  return !has_more_rights && is_dumpable(folder, user) ? std::optional(user) : std::nullopt;
}

}  // namespace

absl::StatusOr<OwnedProcess> find_owner(const ProcFs& proc, int pid) {
  const UniqueFd folder(::open(proc.path(pid, "").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return process_error(pid, errno, "examine the user");
  const ProcFs held(kOpenFolders);
  const auto status = held.status(folder.get());
  const auto start_time = held.start_time(folder.get());
  for (const absl::Status& read : {status.status(), start_time.status()}) {
    if (absl::IsNotFound(read)) return process_error(pid, ESRCH, "examine the user");
    RETURN_IF_ERROR(read);
  }
  OwnedProcess process{.start_time_ticks = *start_time};
  if (!status->has_ended()) process.owner = owner_of(folder, *status);
  if (process.owner || user_of(*status).uid == 0) return process;
  // A process that is ending has no memory, and then looks like one that cannot be dumped.
  const auto now = held.status(folder.get());
  process.has_ended = !now.ok() || now->has_ended() || !now->has_memory;
  return process;
}

absl::StatusOr<OwnedProcess> identify_process(const ProcFs& proc, const RequestedProcess& asked) {
  ASSIGN_OR_RETURN(const OwnedProcess process, find_owner(proc, asked.pid));
  if (process.has_ended) return absl::NotFoundError(absl::StrCat("pid ", asked.pid, " has ended"));
  RETURN_IF_ERROR(check_is_meant(asked, process.start_time_ticks, process.owner));
  return process;
}

absl::Status check_is_meant_now(const ProcFs& proc, const RequestedProcess& asked) {
  return identify_process(proc, asked).status();
}

}  // namespace memprofd
