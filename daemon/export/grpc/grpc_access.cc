// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_access.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

std::vector<std::string> certificate_names(const grpc::AuthContext& context) {
  std::vector<std::string> names;
  for (const char* property : {GRPC_X509_CN_PROPERTY_NAME, GRPC_X509_SAN_PROPERTY_NAME}) {
    for (const grpc::string_ref& name : context.FindPropertyValues(property)) {
      names.emplace_back(name.data(), name.size());
    }
  }
  return names;
}

// Nothing for a process that is not there.
std::optional<uid_t> owner_of(int pid) {
  struct stat status {};
  if (::stat(absl::StrCat("/proc/", pid).c_str(), &status) != 0) return std::nullopt;
  return status.st_uid;
}

}  // namespace

std::string GrpcCaller::user() const {
  if (peer) return peer->uid == 0 ? "" : absl::StrCat("user ", peer->uid);
  if (!certificate_names.empty()) return certificate_names[0];
  return name.substr(0, name.rfind(':'));  // without the port
}

GrpcCaller GrpcAccess::caller(const grpc::ServerContextBase& context) {
  GrpcCaller out;
  const std::string peer = context.peer();
  out.peer = unix_peer(peer);
  if (out.peer) {
    out.name = absl::StrCat("user ", out.peer->uid, ", process ", out.peer->pid);
    return out;
  }
  if (const auto auth = context.auth_context()) out.certificate_names = certificate_names(*auth);
  out.name =
      out.certificate_names.empty() ? peer : absl::StrCat(out.certificate_names[0], " at ", peer);
  return out;
}

absl::StatusOr<GrpcAccess::Call> GrpcAccess::begin(const grpc::ServerContextBase& context) const {
  const std::string user = caller(context).user();
  ASSIGN_OR_RETURN(UserPlaces::Place place, calls_.take(user));
  return Call(std::move(place), user);
}

bool GrpcAccess::owner_decides(const GrpcCaller& caller) const {
  if (!caller.peer || options_.group_controls) return false;
  return caller.peer->uid != 0 && caller.peer->uid != ::geteuid();
}

std::uint64_t GrpcAccess::start_time_of(int pid) {
  const auto ticks = ProcFs().start_time(pid);
  return ticks.ok() ? *ticks : 0;
}

absl::Status GrpcAccess::check_control(const GrpcCaller& caller, int pid) const {
  if (!caller.peer) {
    const auto may = [this](const std::string& name) {
      return std::ranges::find(options_.controllers, name) != options_.controllers.end();
    };
    if (std::ranges::any_of(caller.certificate_names, may)) return absl::OkStatus();
    return absl::PermissionDeniedError(
        "over TCP memprofd only answers questions: use its Unix socket, or name the client's "
        "certificate with --grpc.controllers");
  }
  if (!owner_decides(caller)) return absl::OkStatus();
  const uid_t uid = caller.peer->uid;
  const auto owner = pid > 0 ? owner_of(pid) : std::nullopt;
  if (owner == uid) return absl::OkStatus();
  // It may be there in a moment, and of anybody.
  if (pid > 0 && !owner)
    return absl::NotFoundError(absl::StrCat("pid ", pid, ": there is no such process"));
  const std::string what = pid > 0 ? absl::StrCat("pid ", pid, " is not a program of user ", uid,
                                                  ", or has changed its user")
                                   : absl::StrCat("user ", uid, " may not");
  return absl::PermissionDeniedError(
      absl::StrCat(what, ": ask as root, or start memprofd with --grpc.group-controls"));
}

}  // namespace memprofd
