// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>

#include <chrono>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/api_methods.h"
#include "daemon/export/grpc/call_counter.h"
#include "daemon/export/grpc/grpc_methods.h"
#include "daemon/export/grpc/stream_slots.h"
#include "daemon/export/grpc/tcp_connections.h"
#include "daemon/export/grpc/unix_listener.h"
#include "daemon/export/grpc/unread_answers.h"
#include "daemon/export/heaps/heap_methods.h"
#include "daemon/util/net_address.h"
#include "daemon/util/status_macros.h"
#include "memprof/v1/calls.grpc.pb.h"
#include "memprof/v1/heaps.grpc.pb.h"
#include "memprof/v1/profiler.grpc.pb.h"
#include "memprof/v1/rss.grpc.pb.h"
#include "memprof/v1/values.grpc.pb.h"

namespace memprofd {
namespace {

// Time for calls in progress when the server ends; then connections are cut off.
constexpr std::chrono::seconds kGrace{1};
// Further calls get RESOURCE_EXHAUSTED. Calls that wait for a turn, watch or do not read leave some
// threads free.
constexpr int kMaxThreads = 4 * StreamSlots::kSlots;
// Calls without a place are refused at once; some threads are reserved for that.
static_assert(StreamSlots::kSlots + UnreadAnswers::kMax + GrpcQueues::kMaxAnswers +
                  GrpcAccess::kMaxCalls + CallCounter::kMaxReflections + 12 <=
              kMaxThreads);
// A client that disappears silently is detected after the sum of the keepalive times.
constexpr int kHandshakeMs = 10'000;  // on TCP
constexpr int kKeepaliveMs = 20'000, kKeepaliveTimeoutMs = 10'000;

void enable_plugins_once() {
  static const bool enabled = [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  (void)enabled;
}

absl::StatusOr<std::string> tcp_address(const std::string& text, const GrpcTls& tls) {
  ASSIGN_OR_RETURN(const NetAddress asked, parse_net_address(text));
  ASSIGN_OR_RETURN(NetAddress address, resolve(asked));
  if (!is_loopback(address) && (tls.cert_file.empty() || tls.client_ca_file.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("whoever reaches ", text,
                     " could read all counts: give --grpc.tls.cert-file, --grpc.tls.key-file and "
                     "--grpc.tls.client-ca-file, or listen on 127.0.0.1"));
  }
  // Binds only as a test, and closes again: gRPC does not report why it could not bind.
  RETURN_IF_ERROR(bind_tcp(address, "--grpc.listen-address").status());
  if (address.host.empty()) address.host = "::";
  return address.to_string();
}

}  // namespace

struct GrpcServer::Impl {
  Impl(ProfilerService& profiler, TraceService& traces, const GrpcServerOptions& options)
      : stats(options.stats),
        access(options.access),
        idle_patience(options.idle_patience),
        queues(options.stats, options.stream_patience),
        traces(traces),
        values(profiler),
        control(profiler),
        queries(profiler, options.answers, [&profiler] { return profiler.discovered(); }),
        live_sites(profiler),
        facts(options.facts),
        heaps(options.heaps),
        taken_heaps(*heaps, control, live_sites),
        kept_heaps(*heaps, profiler) {
    const auto add_to = [this](const char* name) {
      GrpcMethods& service = services.emplace_back(name, access, queues);
      return [&service](auto method) { service.add(std::move(method)); };
    };
    const auto add_to_profiler = add_to(::memprof::v1::Profiler::service_full_name());
    each_query_method(queries, add_to_profiler);
    each_control_method(profiler, control, add_to_profiler);
    each_server_method(facts, add_to_profiler);
    each_trace_method(traces, add_to(::memprof::v1::Trace::service_full_name()));
    each_values_method(profiler, values, add_to(::memprof::v1::Values::service_full_name()));
    each_memory_method(profiler, add_to(::memprof::v1::Memory::service_full_name()));
    each_calls_method(profiler, add_to(::memprof::v1::Calls::service_full_name()));
    each_heap_method(control, taken_heaps, kept_heaps,
                     add_to(::memprof::v1::Heaps::service_full_name()));
  }

  void prepare(grpc::ServerBuilder& builder);
  // Sets the health of each service, and of the whole server ("").
  void set_serving(bool serving);

  const std::shared_ptr<ServerStats> stats;
  const GrpcAccess access;
  const std::chrono::milliseconds idle_patience;
  GrpcQueues queues;
  TraceService& traces;
  ValuesService values;
  ControlService control;
  QueryService queries;
  QueryService live_sites;  // for snapshots; it keeps no pages
  const ServerFacts facts;
  const std::shared_ptr<HeapAnalyser> heaps;
  HeapService taken_heaps;
  KeptHeaps kept_heaps;
  std::deque<GrpcMethods> services;
  std::unique_ptr<UnixListener> listener;          // null: no Unix socket
  std::unique_ptr<GrpcCertificates> certificates;  // null: no TLS
  std::unique_ptr<grpc::Server> server;
  std::optional<TcpConnections> tcp;  // none: no TCP
  int port = 0;
};

void GrpcServer::Impl::prepare(grpc::ServerBuilder& builder) {
  // Two servers on one TCP port would share its connections at random.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(kMaxCalls));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             static_cast<int>(idle_patience.count()));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.SetResourceQuota(grpc::ResourceQuota("memprofd").SetMaxThreads(kMaxThreads));
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> counters;
  counters.push_back(std::make_unique<CallCounter>(stats));
  builder.experimental().SetInterceptorCreators(std::move(counters));
  for (GrpcMethods& methods : services) builder.RegisterService(&methods);
}

void GrpcServer::Impl::set_serving(bool serving) {
  grpc::HealthCheckServiceInterface* health = server->GetHealthCheckService();
  health->SetServingStatus(serving);
  for (const GrpcMethods& methods : services) health->SetServingStatus(methods.name(), serving);
}

GrpcServer::GrpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::start(const GrpcServerOptions& options,
                                                              ProfilerService& service,
                                                              TraceService& traces) {
  enable_plugins_once();
  auto impl = std::make_unique<Impl>(service, traces, options);
  grpc::ServerBuilder builder;
  impl->prepare(builder);
  if (!options.socket_path.empty()) {
    ASSIGN_OR_RETURN(impl->listener, UnixListener::listen(options.socket_path, {}, options.stats));
  }
  if (!options.listen_address.empty()) {
    ASSIGN_OR_RETURN(const std::string address, tcp_address(options.listen_address, options.tls));
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    if (options.tls.any()) {
      ASSIGN_OR_RETURN(impl->certificates, GrpcCertificates::read(options.tls));
      credentials = impl->certificates->credentials();
    }
    builder.AddListeningPort(address, credentials, &impl->port);
  }
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve gRPC on ", options.listen_address,
                     ": the address cannot be bound; choose another with --grpc.listen-address"));
  }
  if (impl->port != 0) impl->tcp.emplace(static_cast<std::uint16_t>(impl->port), impl->stats);
  impl->set_serving(true);
  if (impl->listener != nullptr) {
    impl->listener->serve([server = impl->server.get()](UniqueFd connection) {
      grpc::AddInsecureChannelFromFd(server, connection.release());
    });
  }
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(impl)));
}

GrpcServer::~GrpcServer() {
  impl_->set_serving(false);
  impl_->queues.stop.stop();
  impl_->traces.stop();
  if (impl_->listener != nullptr) impl_->listener->stop(kGrace);
  impl_->server->Shutdown(std::chrono::system_clock::now() + kGrace);
  impl_->server->Wait();
}

std::uint16_t GrpcServer::port() const { return static_cast<std::uint16_t>(impl_->port); }

}  // namespace memprofd
