// SPDX-License-Identifier: Apache-2.0
// The gRPC service of a running memprofd as function calls. Errors are one line for people; if
// memprofd does not answer, the line has its address and a remedy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "memprof/v1/calls.pb.h"
#include "memprof/v1/heaps.pb.h"
#include "memprof/v1/profiler.pb.h"
#include "memprof/v1/rss.pb.h"
#include "memprof/v1/values.pb.h"

namespace memprofd::ctl {

namespace pb = ::memprof::v1;

// The environment variable for the default of --address.
inline constexpr char kAddressVariable[] = "MEMPROFD_ADDRESS";

// PEM files; an empty path: no file.
struct ClientTls {
  std::string ca_file;    // authorities that may have signed memprofd's certificate
  std::string cert_file;  // our own certificate, with its chain
  std::string key_file;   // its key
};

struct Endpoint {
  std::string socket;   // path; used when address is empty
  std::string address;  // "host:port", "https://host:port" for TLS, or "http://host:port"
  ClientTls tls;
  // "unix:/run/memprofd/memprofd.sock" or "host:port", as gRPC takes it.
  std::string target() const;
  // "memprofctl WORDS" for hints, with the option that reaches this memprofd where the default
  // does not.
  std::string command(const std::string& words) const;
  // True if the address is https, or a file of tls is given.
  bool with_tls() const;
};

// kInvalidArgument: the address is malformed, or TLS options contradict it or each other.
absl::Status check(const Endpoint& endpoint);

// Thread-compatible: runs one call at a time.
class Client {
 public:
  explicit Client(Endpoint endpoint);
  ~Client();

  absl::StatusOr<pb::ListTargetsResponse> list_targets(bool discovered = false);
  absl::StatusOr<pb::AttachResponse> attach(const pb::AttachRequest& request);
  absl::StatusOr<pb::Target> detach(int pid);
  absl::StatusOr<pb::Target> set_rate(const pb::SetRateRequest& request);
  absl::StatusOr<pb::ListSitesResponse> list_sites(const pb::ListSitesRequest& request);
  absl::StatusOr<pb::GetServerInfoResponse> server_info();
  absl::StatusOr<pb::DiagnoseResponse> diagnose(int pid);
  absl::StatusOr<pb::DiffSitesResponse> diff_sites(const pb::DiffSitesRequest& request);
  absl::StatusOr<pb::ListCallersResponse> list_callers(const pb::ListCallersRequest& request);
  absl::StatusOr<pb::ListLeaksResponse> list_leaks(const pb::ListLeaksRequest& request);
  absl::StatusOr<pb::GetHistoryResponse> get_history(const pb::GetHistoryRequest& request);
  // The profile may have any size.
  absl::StatusOr<pb::GetProfileResponse> get_profile(const pb::GetProfileRequest& request);
  absl::StatusOr<pb::ListValuesResponse> list_values(const pb::ListValuesRequest& request);
  absl::StatusOr<pb::GetValueHistoryResponse> get_value_history(
      const pb::GetValueHistoryRequest& request);
  // Returns the number of threads that resume.
  absl::StatusOr<std::uint32_t> resume(int pid);
  absl::StatusOr<::memprof::v1::AskResponse> ask(const ::memprof::v1::AskRequest& request);
  absl::StatusOr<pb::AdjustResponse> adjust(const pb::AdjustRequest& request);
  absl::StatusOr<pb::KeepValuesResponse> keep_values(const pb::KeepValuesRequest& request);
  absl::StatusOr<pb::TraceInfo> start_trace(const pb::TraceOptions& options);
  absl::StatusOr<pb::TraceInfo> stop_trace(std::uint64_t id);
  absl::StatusOr<pb::ListTracesResponse> list_traces();
  absl::StatusOr<pb::GetRssResponse> get_rss(int pid, bool owners = false);
  absl::StatusOr<pb::ListHeapsResponse> list_heaps(int pid);
  absl::StatusOr<pb::KeepHeapResponse> keep_heap(const pb::KeepHeapRequest& request);

  // Ends a running record(), by the number in its messages; data that memprofd has not sent yet
  // still arrives.
  absl::Status end_recording(std::uint64_t recording);

  // Runs until the stream ends (not an error), `use` returns an error for a message, or interrupt()
  // is called.
  absl::Status record(const pb::RecordRequest& request,
                      const std::function<absl::Status(const pb::RecordResponse&)>& use);
  absl::Status take_snapshot(
      const pb::TakeSnapshotRequest& request,
      const std::function<absl::Status(const pb::TakeSnapshotResponse&)>& use);
  absl::Status take_heap(const pb::TakeHeapRequest& request,
                         const std::function<absl::Status(const pb::TakeSnapshotResponse&)>& use);
  absl::Status stream_events(
      const pb::StreamEventsRequest& request,
      const std::function<absl::Status(const pb::StreamEventsResponse&)>& use);
  absl::Status trace_calls(const pb::TraceCallsRequest& request,
                           const std::function<absl::Status(const pb::TraceCallsResponse&)>& use);
  absl::Status watch_values(const pb::WatchValuesRequest& request,
                            const std::function<absl::Status(const pb::WatchValuesResponse&)>& use);
  // Ends the current or the next call, and all later ones: a stream without an error, any other
  // call with kCancelled. Callable from any thread.
  void interrupt();

 private:
  struct Stub;
  template <typename Response, typename Service, typename Request, typename Method>
  absl::StatusOr<Response> call(Service& service, Method method, const Request& request,
                                int timeout_seconds);
  template <typename Response, typename Service, typename Request, typename Method>
  absl::Status stream(Service& service, Method method, const Request& request,
                      const std::function<absl::Status(const Response&)>& use);
  template <typename Status>
  absl::Status error_of(const Status& status, const char* timeout) const;
  absl::Status unreachable(const std::string& why) const;

  const Endpoint endpoint_;
  std::unique_ptr<Stub> stub_;
};

}  // namespace memprofd::ctl
