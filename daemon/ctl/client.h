// The gRPC service of a running memprofd, as function calls. Errors are one
// line for people; when nobody answers, it says where was asked and what to do.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

namespace pb = ::memprof::v1;

struct Endpoint {
  std::string socket;   // path; used when address is empty
  std::string address;  // host:port
  // "unix:/run/memprofd/memprofd.sock" or "host:port", as gRPC takes it.
  std::string target() const;
};

class Client {
 public:
  explicit Client(Endpoint endpoint);
  ~Client();

  absl::StatusOr<pb::ListTargetsResponse> list_targets();
  absl::StatusOr<pb::Target> attach(const pb::AttachRequest& request);
  absl::StatusOr<pb::Target> detach(int pid);
  absl::StatusOr<pb::Target> set_rate(int pid, double rate);
  absl::StatusOr<pb::ListSitesResponse> list_sites(const pb::ListSitesRequest& request);
  absl::StatusOr<pb::DiagnoseResponse> diagnose(int pid);

 private:
  struct Stub;
  template <typename Response, typename Request, typename Method>
  absl::StatusOr<Response> call(Method method, const Request& request, int timeout_seconds);
  absl::Status unreachable() const;

  const Endpoint endpoint_;
  std::unique_ptr<Stub> stub_;
};

}  // namespace memprofd::ctl
