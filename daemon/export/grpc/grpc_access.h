// SPDX-License-Identifier: Apache-2.0
// Identifies gRPC callers and their rights.
//
//   Unix socket   root and memprofd's own user: everything. Others who reach the socket: all
//                 questions; control of programs that the kernel would let them trace
//                 (discover/process_owner.h), or of all programs with group_controls.
//   TCP           all questions; control only with a certificate for one of the names that may.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/export/grpc/unix_listener.h"
#include "daemon/model/requested_process.h"
#include "daemon/util/scoped_user.h"
#include "daemon/util/user_slots.h"

namespace grpc {
class ServerContextBase;
}

namespace memprofd {

struct GrpcAccessOptions {
  bool group_controls = false;
  std::vector<std::string> controllers;  // common or alternative names of certificates
};

struct GrpcCaller {
  std::string name;              // "user 0, process 77", "shop-ops at ipv4:10.0.0.7:4711"
  std::optional<UnixPeer> peer;  // on the Unix socket
  std::vector<std::string> certificate_names;

  // The user to whom limits apply, for requests over any connection. Empty: root, who has no
  // limits.
  std::string user() const;
};

class GrpcAccess {
 public:
  // Calls that wait or are answered at once, each on a thread of the server's; those that have
  // places of their own (streams, turns) left out.
  static constexpr int kMaxCalls = 32;

  // One call, as long as it lasts: its thread works for the caller's user.
  class Call {
   public:
    Call(UserSlots::Slot slot, const std::string& user)
        : slot_(std::move(slot)), user_(std::make_unique<ScopedUser>(user)) {}

   private:
    UserSlots::Slot slot_;
    std::unique_ptr<ScopedUser> user_;
  };
  // kResourceExhausted: too many calls are under way, or of this user.
  absl::StatusOr<Call> begin(const grpc::ServerContextBase& context) const;

  explicit GrpcAccess(GrpcAccessOptions options) : options_(std::move(options)) {}

  static GrpcCaller caller(const grpc::ServerContextBase& context);
  // Checks the right to requests that concern no program in particular: kPermissionDenied with a
  // remedy.
  absl::Status check_control(const GrpcCaller& caller) const;
  // The process of a request, for a caller who may control it. If the program's owner decides, the
  // result stands for that process and that user from then on, whoever has its pid next, and
  // whatever it becomes. start_time_ticks: from the client; 0: any process with the pid.
  absl::StatusOr<RequestedProcess> process_for(const GrpcCaller& caller, int pid,
                                               std::uint64_t start_time_ticks = 0) const;
  // The user whose programs the caller may control; nothing: every user's, if check_control()
  // succeeds.
  std::optional<ProcessUser> user_for(const GrpcCaller& caller) const;

 private:
  const GrpcAccessOptions options_;
  mutable UserSlots calls_{kMaxCalls, "calls are under way"};
};

}  // namespace memprofd
