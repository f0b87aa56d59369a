// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/export/grpc/grpc_service.h"
#include "daemon/export/grpc/grpc_trace_service.h"
#include "daemon/export/grpc/unix_socket.h"
#include "daemon/util/net_address.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::chrono::seconds kGrace{2};
// A stream takes one for as long as it lasts; more calls get RESOURCE_EXHAUSTED.
constexpr int kMaxThreads = 32;

// The socket is created by gRPC; the umask makes its mode right from the start.
class SocketMode {
 public:
  SocketMode() : before_(::umask(0117)) {}
  ~SocketMode() { ::umask(before_); }

 private:
  const mode_t before_;
};

void enable_plugins_once() {
  static const bool enabled = [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  (void)enabled;
}

absl::StatusOr<std::string> tcp_address(const std::string& text) {
  ASSIGN_OR_RETURN(const NetAddress asked, parse_net_address(text));
  ASSIGN_OR_RETURN(NetAddress address, resolve(asked));
  // Only tried, and given back: gRPC does not tell why it could not bind.
  RETURN_IF_ERROR(bind_tcp(address, "--grpc.listen-address").status());
  if (address.host.empty()) address.host = "::";
  return address.to_string();
}

}  // namespace

struct GrpcServer::Impl {
  Impl(ProfilerService& profiler, TraceService& traces)
      : service(profiler), traces(traces), trace_service(traces) {}

  GrpcService service;
  TraceService& traces;
  GrpcTraceService trace_service;
  std::unique_ptr<grpc::Server> server;
  std::string socket_path;
  int port = 0;
};

GrpcServer::GrpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::start(const GrpcServerOptions& options,
                                                              ProfilerService& service,
                                                              TraceService& traces) {
  enable_plugins_once();
  auto impl = std::make_unique<Impl>(service, traces);
  grpc::ServerBuilder builder;
  // Two servers on one TCP port would share its connections at random.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetResourceQuota(grpc::ResourceQuota("memprofd").SetMaxThreads(kMaxThreads));
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.RegisterService(&impl->service);
  builder.RegisterService(&impl->trace_service);
  if (!options.socket_path.empty()) {
    RETURN_IF_ERROR(prepare_socket_path(options.socket_path));
    builder.AddListeningPort(absl::StrCat("unix:", options.socket_path),
                             grpc::InsecureServerCredentials());
  }
  if (!options.listen_address.empty()) {
    ASSIGN_OR_RETURN(const std::string address, tcp_address(options.listen_address));
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &impl->port);
  }
  {
    const SocketMode mode;
    impl->server = builder.BuildAndStart();
  }
  if (impl->server == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve gRPC on ", options.socket_path, " ", options.listen_address,
                     ": the address cannot be bound; choose another with --grpc.socket or "
                     "--grpc.listen-address"));
  }
  impl->socket_path = options.socket_path;
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(impl)));
}

GrpcServer::~GrpcServer() {
  impl_->service.stop();
  impl_->traces.stop();
  impl_->server->Shutdown(std::chrono::system_clock::now() + kGrace);
  impl_->server->Wait();
  if (!impl_->socket_path.empty()) ::unlink(impl_->socket_path.c_str());
}

std::uint16_t GrpcServer::port() const { return static_cast<std::uint16_t>(impl_->port); }

}  // namespace memprofd
