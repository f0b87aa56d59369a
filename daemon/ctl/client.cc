// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/client.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/export/api/refusal_details.h"
#include "daemon/export/clients/tls_files.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/paths.h"
#include "daemon/util/pem_file.h"
#include "daemon/util/shell_word.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/threads/mutex.h"
#include "memprof/v1/calls.grpc.pb.h"
#include "memprof/v1/heaps.grpc.pb.h"
#include "memprof/v1/profiler.grpc.pb.h"
#include "memprof/v1/rss.grpc.pb.h"
#include "memprof/v1/values.grpc.pb.h"

namespace memprofd::ctl {
namespace {

constexpr int kTimeoutSeconds = 20;
// Replaces the gRPC library's message for a deadline of this side.
constexpr char kOwnDeadline[] = "Deadline Exceeded";
constexpr int kInspectionTimeoutSeconds = 120;
// The gRPC library's message for an answer in HTTP/1.
constexpr char kHttpAnswer[] = "http1.x server";
constexpr int kReconnectMs = 1000;
// Limit for answers without pages or pieces, such as a history of many series.
constexpr int kMaxAnswerBytes = 64 << 20;

constexpr absl::string_view kHttps = "https://";
constexpr absl::string_view kHttp = "http://";
// Debian's and Fedora's bundle of public authorities.
constexpr const char* kPublicAuthorities[] = {"/etc/ssl/certs/ca-certificates.crt",
                                              "/etc/pki/tls/certs/ca-bundle.crt"};

// Translates an OpenSSL error into a cause and a remedy.
std::string tls_cause(const std::string& why) {
  if (absl::StrContains(why, "CERTIFICATE_VERIFY_FAILED") ||
      absl::StrContains(why, "certificate verify failed")) {
    return "its certificate has expired, is not signed by a CA in --tls.ca, or does not match the "
           "host in --address";
  }
  return absl::StrCat(why,
                      "; check --tls.ca, --tls.cert and --tls.key, and that memprofd has "
                      "--grpc.tls.cert-file");
}

// Requires that check() has read the given files.
std::shared_ptr<grpc::ChannelCredentials> credentials_of(const Endpoint& endpoint) {
  if (!endpoint.with_tls()) return grpc::InsecureChannelCredentials();
  const auto text_of = [](const std::string& path) {
    return path.empty() ? "" : read_pem(path, path).value_or("");
  };
  grpc::SslCredentialsOptions options{.pem_root_certs = text_of(endpoint.tls.ca_file),
                                      .pem_private_key = text_of(endpoint.tls.key_file),
                                      .pem_cert_chain = text_of(endpoint.tls.cert_file)};
  for (const char* bundle : kPublicAuthorities) {
    if (options.pem_root_certs.empty()) options.pem_root_certs = text_of(bundle);
  }
  return grpc::SslCredentials(options);
}

}  // namespace

std::string Endpoint::target() const {
  if (address.empty()) return absl::StrCat("unix:", socket);
  absl::string_view host = address;
  if (!absl::ConsumePrefix(&host, kHttps)) absl::ConsumePrefix(&host, kHttp);
  absl::ConsumeSuffix(&host, "/");
  return std::string(host);
}

std::string Endpoint::command(const std::string& words) const {
  const char* usual = std::getenv(kAddressVariable);
  const auto option = [&](const char* name, const std::string& value) {
    return absl::StrCat("memprofctl ", words, " ", name, " ", shell_word(value));
  };
  if (!address.empty() && (usual == nullptr || address != usual)) {
    return option("--address", address);
  }
  if (address.empty() && !socket.empty() && socket != find_grpc_socket()) {
    return option("--grpc.socket", socket);
  }
  return absl::StrCat("memprofctl ", words);
}

bool Endpoint::with_tls() const {
  return absl::StartsWith(address, kHttps) || !tls.ca_file.empty() || !tls.cert_file.empty() ||
         !tls.key_file.empty();
}

absl::Status check(const Endpoint& endpoint) {
  const std::string& address = endpoint.address;
  if (endpoint.with_tls() && address.empty()) {
    return absl::InvalidArgumentError(
        "--tls.ca, --tls.cert and --tls.key are for TCP: give --address https://HOST:PORT too");
  }
  if (endpoint.with_tls() && absl::StartsWith(address, kHttp)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--address ", address, ": http:// does not use TLS; write https://, or omit --tls.*"));
  }
  if (endpoint.tls.cert_file.empty() != endpoint.tls.key_file.empty()) {
    return absl::InvalidArgumentError(
        "--tls.cert and --tls.key belong together: give both or neither");
  }
  if (address.empty()) return absl::OkStatus();
  const std::string target = endpoint.target();
  const std::size_t colon = target.rfind(':');
  if (colon == std::string::npos || colon == 0 || absl::StrContains(target, "/") ||
      (absl::StrContains(target.substr(0, colon), ":") && target.front() != '[')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--address ", address, ": not an address; write HOST:PORT or https://HOST:PORT"));
  }
  for (const std::string& file :
       {endpoint.tls.ca_file, endpoint.tls.cert_file, endpoint.tls.key_file}) {
    if (file.empty()) continue;
    RETURN_IF_ERROR(read_pem(file, file).status());
  }
  if (endpoint.tls.cert_file.empty() || endpoint.tls.key_file.empty()) return absl::OkStatus();
  return read_tls_files({"--tls.cert", endpoint.tls.cert_file},
                        {"--tls.key", endpoint.tls.key_file}, {})
      .status();
}

struct Client::Stub {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<pb::Profiler::Stub> methods;
  std::unique_ptr<pb::Trace::Stub> traces;
  std::unique_ptr<pb::Values::Stub> values;
  std::unique_ptr<pb::Memory::Stub> memory;
  std::unique_ptr<pb::Calls::Stub> calls;
  std::unique_ptr<pb::Heaps::Stub> heaps;
  Mutex mutex;
  grpc::ClientContext* running ABSL_GUARDED_BY(mutex) = nullptr;
  bool interrupted ABSL_GUARDED_BY(mutex) = false;

  // Returns false if no further call may begin.
  bool begin(grpc::ClientContext* context) {
    const MutexLock lock(mutex);
    if (!interrupted) running = context;
    return !interrupted;
  }
  // Returns true if the call was interrupted.
  bool end() {
    const MutexLock lock(mutex);
    running = nullptr;
    return interrupted;
  }
};

Client::Client(Endpoint endpoint)
    : endpoint_(std::move(endpoint)), stub_(std::make_unique<Stub>()) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  // A certificate is checked against the authority, so TLS keeps the address' own.
  if (!endpoint_.with_tls()) arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Detects a restarted daemon soon.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
  stub_->channel =
      grpc::CreateCustomChannel(endpoint_.target(), credentials_of(endpoint_), arguments);
  stub_->methods = pb::Profiler::NewStub(stub_->channel);
  stub_->traces = pb::Trace::NewStub(stub_->channel);
  stub_->values = pb::Values::NewStub(stub_->channel);
  stub_->memory = pb::Memory::NewStub(stub_->channel);
  stub_->calls = pb::Calls::NewStub(stub_->channel);
  stub_->heaps = pb::Heaps::NewStub(stub_->channel);
}

Client::~Client() = default;

absl::Status Client::unreachable(const std::string& why) const {
  if (endpoint_.with_tls() && absl::StrContains(why, "andshake failed")) {
    return absl::UnavailableError(
        absl::StrCat("memprofd at ", endpoint_.target(),
                     " and memprofctl do not agree on TLS: ", tls_cause(why)));
  }
  if (absl::StrContains(why, kHttpAnswer)) {
    return absl::UnavailableError(
        absl::StrCat(endpoint_.target(),
                     " is an HTTP port; give the address of memprofd's --grpc.listen-address"));
  }
  const bool closed = absl::StrContains(why, "losed") || absl::StrContains(why, "reset");
  if (closed && !endpoint_.address.empty()) {
    return absl::UnavailableError(absl::StrCat(
        "memprofd at ", endpoint_.target(), " closed the connection; it may require ",
        endpoint_.with_tls() ? "a certificate over TLS: --tls.cert FILE --tls.key FILE"
                             : absl::StrCat("TLS: --address https://", endpoint_.target())));
  }
  const std::string& path = endpoint_.socket;
  if (endpoint_.address.empty() && ::access(path.c_str(), F_OK) == 0 &&
      ::access(path.c_str(), W_OK) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot connect to ", path,
                     ": permission denied; run memprofctl as root or as a member of the socket's "
                     "group"));
  }
  return absl::UnavailableError(
      absl::StrCat("memprofd does not answer at ", endpoint_.target(),
                   "; start it (memprofd --pid PID), or pass its --grpc.socket or --address"));
}

template <typename Status>
absl::Status Client::error_of(const Status& status, const char* timeout) const {
  const bool connected = stub_->channel->GetState(false) == GRPC_CHANNEL_READY;
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && !connected) {
    return unreachable(status.error_message());
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    // A deadline inside memprofd has a message of its own.
    if (status.error_message() != kOwnDeadline) {
      return absl::UnavailableError(status.error_message());
    }
    return absl::UnavailableError(absl::StrCat("memprofd at ", endpoint_.target(),
                                               " did not answer in ", timeout, "; see its log"));
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
    absl::Status older =
        absl::UnavailableError(absl::StrCat("memprofd at ", endpoint_.target(),
                                            " does not support this request: it is older than this "
                                            "memprofctl; restart it after the upgrade"));
    older.SetPayload(kOlderDaemonPayload, absl::Cord());
    return older;
  }
  const absl::Status error(static_cast<absl::StatusCode>(status.error_code()),
                           status.error_message());
  const auto refusal = refusal_in(status.error_details());
  return refusal ? with_refusal(error, *refusal) : error;
}

template <typename Response, typename Service, typename Request, typename Method>
absl::StatusOr<Response> Client::call(Service& service, Method method, const Request& request,
                                      int timeout_seconds) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(timeout_seconds));
  Response response;
  if (!stub_->begin(&context)) return absl::CancelledError("interrupted");
  const grpc::Status status = (service.*method)(&context, request, &response);
  stub_->end();
  if (status.ok()) return response;
  return error_of(status, absl::StrCat(timeout_seconds, " s").c_str());
}

template <typename Response, typename Service, typename Request, typename Method>
absl::Status Client::stream(Service& service, Method method, const Request& request,
                            const std::function<absl::Status(const Response&)>& use) {
  grpc::ClientContext context;
  if (!stub_->begin(&context)) return absl::OkStatus();
  auto reader = (service.*method)(&context, request);
  Response response;
  absl::Status used;
  while (used.ok() && reader->Read(&response)) used = use(response);
  if (!used.ok()) context.TryCancel();
  const grpc::Status status = reader->Finish();
  const bool interrupted = stub_->end();
  if (!used.ok()) return used;
  if (status.ok() || interrupted) return absl::OkStatus();
  return error_of(status, "time");
}

void Client::interrupt() {
  const MutexLock lock(stub_->mutex);
  stub_->interrupted = true;
  if (stub_->running != nullptr) stub_->running->TryCancel();
}

absl::StatusOr<pb::ListTargetsResponse> Client::list_targets(bool discovered) {
  pb::ListTargetsRequest request;
  request.set_discovered(discovered);
  return call<pb::ListTargetsResponse>(*stub_->methods, &pb::Profiler::Stub::ListTargets, request,
                                       kTimeoutSeconds);
}

absl::StatusOr<pb::AttachResponse> Client::attach(const pb::AttachRequest& request) {
  return call<pb::AttachResponse>(*stub_->methods, &pb::Profiler::Stub::Attach, request,
                                  kInspectionTimeoutSeconds);
}

absl::StatusOr<pb::Target> Client::detach(int pid) {
  pb::DetachRequest request;
  request.set_pid(pid);
  auto response = call<pb::DetachResponse>(*stub_->methods, &pb::Profiler::Stub::Detach, request,
                                           kTimeoutSeconds);
  if (!response.ok()) return response.status();
  return response->target();
}

absl::StatusOr<pb::Target> Client::set_rate(const pb::SetRateRequest& request) {
  auto response = call<pb::SetRateResponse>(*stub_->methods, &pb::Profiler::Stub::SetRate, request,
                                            kTimeoutSeconds);
  if (!response.ok()) return response.status();
  return response->target();
}

absl::StatusOr<pb::ListSitesResponse> Client::list_sites(const pb::ListSitesRequest& request) {
  return call<pb::ListSitesResponse>(*stub_->methods, &pb::Profiler::Stub::ListSites, request,
                                     kTimeoutSeconds);
}

absl::StatusOr<pb::GetServerInfoResponse> Client::server_info() {
  return call<pb::GetServerInfoResponse>(*stub_->methods, &pb::Profiler::Stub::GetServerInfo,
                                         pb::GetServerInfoRequest(), kTimeoutSeconds);
}

absl::StatusOr<pb::DiagnoseResponse> Client::diagnose(int pid) {
  pb::DiagnoseRequest request;
  request.set_pid(pid);
  return call<pb::DiagnoseResponse>(*stub_->methods, &pb::Profiler::Stub::Diagnose, request,
                                    kInspectionTimeoutSeconds);
}

absl::StatusOr<pb::DiffSitesResponse> Client::diff_sites(const pb::DiffSitesRequest& request) {
  return call<pb::DiffSitesResponse>(*stub_->methods, &pb::Profiler::Stub::DiffSites, request,
                                     kTimeoutSeconds);
}

absl::StatusOr<pb::ListCallersResponse> Client::list_callers(
    const pb::ListCallersRequest& request) {
  return call<pb::ListCallersResponse>(*stub_->methods, &pb::Profiler::Stub::ListCallers, request,
                                       kTimeoutSeconds);
}

absl::StatusOr<pb::ListLeaksResponse> Client::list_leaks(const pb::ListLeaksRequest& request) {
  return call<pb::ListLeaksResponse>(*stub_->methods, &pb::Profiler::Stub::ListLeaks, request,
                                     kTimeoutSeconds);
}

absl::StatusOr<pb::GetHistoryResponse> Client::get_history(const pb::GetHistoryRequest& request) {
  return call<pb::GetHistoryResponse>(*stub_->methods, &pb::Profiler::Stub::GetHistory, request,
                                      kTimeoutSeconds);
}

absl::StatusOr<pb::GetProfileResponse> Client::get_profile(const pb::GetProfileRequest& request) {
  pb::GetProfileResponse profile;
  std::size_t total = 1;
  RETURN_IF_ERROR(
      stream<pb::StreamProfileResponse>(*stub_->methods, &pb::Profiler::Stub::StreamProfile,
                                        request, [&](const pb::StreamProfileResponse& piece) {
                                          if (!piece.file_name().empty()) {
                                            profile.set_content_type(piece.content_type());
                                            profile.set_file_name(piece.file_name());
                                            total = piece.total_bytes();
                                          }
                                          profile.mutable_data()->append(piece.data());
                                          return absl::OkStatus();
                                        }));
  if (profile.data().size() != total) return absl::CancelledError("interrupted");
  return profile;
}

absl::StatusOr<pb::ListValuesResponse> Client::list_values(const pb::ListValuesRequest& request) {
  return call<pb::ListValuesResponse>(*stub_->values, &pb::Values::Stub::ListValues, request,
                                      kTimeoutSeconds);
}

absl::StatusOr<pb::GetValueHistoryResponse> Client::get_value_history(
    const pb::GetValueHistoryRequest& request) {
  return call<pb::GetValueHistoryResponse>(*stub_->values, &pb::Values::Stub::GetValueHistory,
                                           request, kTimeoutSeconds);
}

absl::StatusOr<pb::AdjustResponse> Client::adjust(const pb::AdjustRequest& request) {
  return call<pb::AdjustResponse>(*stub_->values, &pb::Values::Stub::Adjust, request,
                                  kTimeoutSeconds);
}

absl::StatusOr<pb::KeepValuesResponse> Client::keep_values(const pb::KeepValuesRequest& request) {
  return call<pb::KeepValuesResponse>(*stub_->values, &pb::Values::Stub::KeepValues, request,
                                      kTimeoutSeconds);
}

absl::StatusOr<std::uint32_t> Client::resume(int pid) {
  pb::ResumeRequest request;
  request.set_pid(pid);
  ASSIGN_OR_RETURN(const pb::ResumeResponse response,
                   call<pb::ResumeResponse>(*stub_->values, &pb::Values::Stub::Resume, request,
                                            kTimeoutSeconds));
  return response.waiting();
}

absl::StatusOr<pb::AskResponse> Client::ask(const pb::AskRequest& request) {
  return call<pb::AskResponse>(*stub_->values, &pb::Values::Stub::Ask, request,
                               kTimeoutSeconds + static_cast<int>(request.timeout_seconds()));
}

absl::StatusOr<pb::TraceInfo> Client::start_trace(const pb::TraceOptions& options) {
  pb::StartTraceRequest request;
  *request.mutable_options() = options;
  auto response = call<pb::StartTraceResponse>(*stub_->traces, &pb::Trace::Stub::StartTrace,
                                               request, kTimeoutSeconds);
  if (!response.ok()) return response.status();
  return response->trace();
}

absl::StatusOr<pb::TraceInfo> Client::stop_trace(std::uint64_t id) {
  pb::StopTraceRequest request;
  request.set_id(id);
  auto response = call<pb::StopTraceResponse>(*stub_->traces, &pb::Trace::Stub::StopTrace, request,
                                              kTimeoutSeconds);
  if (!response.ok()) return response.status();
  return response->trace();
}

absl::StatusOr<pb::ListTracesResponse> Client::list_traces() {
  return call<pb::ListTracesResponse>(*stub_->traces, &pb::Trace::Stub::ListTraces,
                                      pb::ListTracesRequest(), kTimeoutSeconds);
}

absl::StatusOr<pb::GetRssResponse> Client::get_rss(int pid, bool owners) {
  pb::GetRssRequest request;
  request.set_pid(pid);
  request.set_owners(owners);
  return call<pb::GetRssResponse>(*stub_->memory, &pb::Memory::Stub::GetRss, request,
                                  kInspectionTimeoutSeconds);
}

absl::StatusOr<pb::ListHeapsResponse> Client::list_heaps(int pid) {
  pb::ListHeapsRequest request;
  request.set_pid(pid);
  return call<pb::ListHeapsResponse>(*stub_->heaps, &pb::Heaps::Stub::ListHeaps, request,
                                     kTimeoutSeconds);
}

absl::StatusOr<pb::KeepHeapResponse> Client::keep_heap(const pb::KeepHeapRequest& request) {
  return call<pb::KeepHeapResponse>(*stub_->heaps, &pb::Heaps::Stub::KeepHeap, request,
                                    kInspectionTimeoutSeconds);
}

absl::Status Client::end_recording(std::uint64_t recording) {
  pb::EndRecordingRequest request;
  request.set_recording(recording);
  return call<pb::EndRecordingResponse>(*stub_->traces, &pb::Trace::Stub::EndRecording, request,
                                        kTimeoutSeconds)
      .status();
}

absl::Status Client::record(const pb::RecordRequest& request,
                            const std::function<absl::Status(const pb::RecordResponse&)>& use) {
  return stream<pb::RecordResponse>(*stub_->traces, &pb::Trace::Stub::Record, request, use);
}

absl::Status Client::take_snapshot(
    const pb::TakeSnapshotRequest& request,
    const std::function<absl::Status(const pb::TakeSnapshotResponse&)>& use) {
  return stream<pb::TakeSnapshotResponse>(*stub_->methods, &pb::Profiler::Stub::TakeSnapshot,
                                          request, use);
}

absl::Status Client::take_heap(
    const pb::TakeHeapRequest& request,
    const std::function<absl::Status(const pb::TakeSnapshotResponse&)>& use) {
  return stream<pb::TakeSnapshotResponse>(*stub_->heaps, &pb::Heaps::Stub::TakeHeap, request, use);
}

absl::Status Client::stream_events(
    const pb::StreamEventsRequest& request,
    const std::function<absl::Status(const pb::StreamEventsResponse&)>& use) {
  return stream<pb::StreamEventsResponse>(*stub_->methods, &pb::Profiler::Stub::StreamEvents,
                                          request, use);
}

absl::Status Client::trace_calls(
    const pb::TraceCallsRequest& request,
    const std::function<absl::Status(const pb::TraceCallsResponse&)>& use) {
  return stream<pb::TraceCallsResponse>(*stub_->calls, &pb::Calls::Stub::TraceCalls, request, use);
}

absl::Status Client::watch_values(
    const pb::WatchValuesRequest& request,
    const std::function<absl::Status(const pb::WatchValuesResponse&)>& use) {
  return stream<pb::WatchValuesResponse>(*stub_->values, &pb::Values::Stub::WatchValues, request,
                                         use);
}

}  // namespace memprofd::ctl
