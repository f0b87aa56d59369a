#include "daemon/ctl/client.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "memprof/v1/profiler.grpc.pb.h"

namespace memprofd::ctl {
namespace {

constexpr int kTimeoutSeconds = 20;
constexpr int kAttachTimeoutSeconds = 120;

}  // namespace

std::string Endpoint::target() const {
  return address.empty() ? absl::StrCat("unix:", socket) : address;
}

struct Client::Stub {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<pb::Profiler::Stub> methods;
};

Client::Client(Endpoint endpoint)
    : endpoint_(std::move(endpoint)), stub_(std::make_unique<Stub>()) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // all sites of a large program
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  stub_->channel =
      grpc::CreateCustomChannel(endpoint_.target(), grpc::InsecureChannelCredentials(), arguments);
  stub_->methods = pb::Profiler::NewStub(stub_->channel);
}

Client::~Client() = default;

absl::Status Client::unreachable() const {
  const std::string& path = endpoint_.socket;
  if (endpoint_.address.empty() && ::access(path.c_str(), F_OK) == 0 &&
      ::access(path.c_str(), W_OK) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("no permission for ", path, "; run memprofctl as root"));
  }
  return absl::UnavailableError(
      absl::StrCat("memprofd does not answer at ", endpoint_.target(),
                   "; start it (memprofd --pid PID), or say where it is with --grpc.socket or "
                   "--address"));
}

template <typename Response, typename Request, typename Method>
absl::StatusOr<Response> Client::call(Method method, const Request& request, int timeout_seconds) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(timeout_seconds));
  Response response;
  const grpc::Status status = (stub_->methods.get()->*method)(&context, request, &response);
  if (status.ok()) return response;
  const bool connected = stub_->channel->GetState(false) == GRPC_CHANNEL_READY;
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && !connected) return unreachable();
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::UnavailableError(absl::StrCat("memprofd at ", endpoint_.target(),
                                               " did not answer in ", timeout_seconds,
                                               " s; see its log"));
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

absl::StatusOr<pb::ListTargetsResponse> Client::list_targets() {
  return call<pb::ListTargetsResponse>(&pb::Profiler::Stub::ListTargets, pb::ListTargetsRequest(),
                                       kTimeoutSeconds);
}

absl::StatusOr<pb::Target> Client::attach(const pb::AttachRequest& request) {
  auto response =
      call<pb::AttachResponse>(&pb::Profiler::Stub::Attach, request, kAttachTimeoutSeconds);
  if (!response.ok()) return response.status();
  return response->target();
}

absl::StatusOr<pb::Target> Client::detach(int pid) {
  pb::DetachRequest request;
  request.set_pid(pid);
  auto response = call<pb::DetachResponse>(&pb::Profiler::Stub::Detach, request, kTimeoutSeconds);
  if (!response.ok()) return response.status();
  return response->target();
}

absl::StatusOr<pb::Target> Client::set_rate(int pid, double rate) {
  pb::SetRateRequest request;
  request.set_pid(pid);
  request.set_sampling_rate(rate);
  auto response = call<pb::SetRateResponse>(&pb::Profiler::Stub::SetRate, request, kTimeoutSeconds);
  if (!response.ok()) return response.status();
  return response->target();
}

absl::StatusOr<pb::ListSitesResponse> Client::list_sites(const pb::ListSitesRequest& request) {
  return call<pb::ListSitesResponse>(&pb::Profiler::Stub::ListSites, request, kTimeoutSeconds);
}

absl::StatusOr<pb::DiagnoseResponse> Client::diagnose(int pid) {
  pb::DiagnoseRequest request;
  request.set_pid(pid);
  return call<pb::DiagnoseResponse>(&pb::Profiler::Stub::Diagnose, request, kTimeoutSeconds);
}

}  // namespace memprofd::ctl
