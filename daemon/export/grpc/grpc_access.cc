// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_access.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/discover/process_owner.h"
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
  ASSIGN_OR_RETURN(UserSlots::Slot slot, calls_.take(user));
  return Call(std::move(slot), user);
}

std::optional<ProcessUser> GrpcAccess::user_for(const GrpcCaller& caller) const {
  if (!caller.peer || options_.group_controls) return std::nullopt;
  if (caller.peer->uid == 0 || caller.peer->uid == ::geteuid()) return std::nullopt;
  return ProcessUser{caller.peer->uid, caller.peer->gid};
}

absl::StatusOr<RequestedProcess> GrpcAccess::process_for(const GrpcCaller& caller, int pid,
                                                         std::uint64_t start_time_ticks) const {
  RequestedProcess asked(pid, start_time_ticks, user_for(caller));
  if (!asked.user || pid <= 0) {
    const absl::Status allowed = check_control(caller);
    return allowed.ok() ? asked : absl::StatusOr<RequestedProcess>(allowed);
  }
  ASSIGN_OR_RETURN(const OwnedProcess process, identify_process(ProcFs(), asked));
  asked.start_time_ticks = process.start_time_ticks;
  return asked;
}

absl::Status GrpcAccess::check_control(const GrpcCaller& caller) const {
  if (!caller.peer) {
    const auto may = [this](const std::string& name) {
      return std::ranges::find(options_.controllers, name) != options_.controllers.end();
    };
    if (std::ranges::any_of(caller.certificate_names, may)) return absl::OkStatus();
    return absl::PermissionDeniedError(
        "over TCP memprofd only answers questions: use its Unix socket, or name the client's "
        "certificate with --grpc.controllers");
  }
  const auto user = user_for(caller);
  if (!user) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "user ", user->uid, " may not: ask as root, or start memprofd with --grpc.group-controls"));
}

}  // namespace memprofd
