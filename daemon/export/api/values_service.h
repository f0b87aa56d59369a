// SPDX-License-Identifier: Apache-2.0
// Values of a target's modules as the API's messages.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/export/api/method.h"
#include "daemon/export/api/service.h"
#include "daemon/history/value_sample.h"
#include "daemon/values/value_watch.h"
#include "memprof/v1/values.pb.h"

namespace memprofd {

// Answers the request with what read() returns. kInvalidArgument for an invalid request, otherwise
// the errors of read().
absl::StatusOr<::memprof::v1::ListValuesResponse> answer_values(
    const ::memprof::v1::ListValuesRequest& request,
    const std::function<absl::StatusOr<ValuesAnswer>(const ValuesRequest&)>& read);

// Thread-safe. Each RequestedProcess is the process of a request and the user who asks.
class ValuesService {
 public:
  // service must outlive this.
  explicit ValuesService(ProfilerService& service) : service_(service) {}

  // wanted: whether a client still waits. kInvalidArgument for an invalid request, otherwise the
  // errors of ProfilerService.
  absl::StatusOr<::memprof::v1::ListValuesResponse> list_values(
      const ::memprof::v1::ListValuesRequest& request, const RequestedProcess& process,
      const std::function<bool()>& wanted);

  absl::StatusOr<::memprof::v1::ResumeResponse> resume(const ::memprof::v1::ResumeRequest& request,
                                                       const RequestedProcess& process);

  absl::StatusOr<::memprof::v1::AdjustResponse> adjust(const ::memprof::v1::AdjustRequest& request,
                                                       const RequestedProcess& process);

  absl::StatusOr<::memprof::v1::KeepValuesResponse> keep(
      const ::memprof::v1::KeepValuesRequest& request, const RequestedProcess& process);

  absl::StatusOr<::memprof::v1::AskResponse> ask(const ::memprof::v1::AskRequest& request,
                                                 const RequestedProcess& process,
                                                 const std::function<bool()>& wanted);

  // Every user may see the numbers, which are also in metrics. Only the owner of the target, which
  // may have ended, may see log lines. user: the caller; nothing: a user who may see everything.
  absl::StatusOr<::memprof::v1::GetValueHistoryResponse> history(
      const ::memprof::v1::GetValueHistoryRequest& request,
      const std::optional<ProcessUser>& user = std::nullopt);

 private:
  ProfilerService& service_;
};

// The answer to one request to watch values, message by message. Not thread-safe.
class ValuesStream {
 public:
  // service must outlive it. kInvalidArgument: the request is invalid. All messages are about the
  // program of the first one; another program in the process or at the pid is kNotFound.
  static absl::StatusOr<ValuesStream> open(ProfilerService& service,
                                           const ::memprof::v1::WatchValuesRequest& request,
                                           const RequestedProcess& process);

  // Returns the errors of ValuesService::list_values().
  absl::StatusOr<::memprof::v1::WatchValuesResponse> next(const std::function<bool()>& wanted);
  std::chrono::nanoseconds period() const { return period_; }

 private:
  ValuesStream(ProfilerService& service, const RequestedProcess& process, ValuesRequest asked,
               std::chrono::nanoseconds period)
      : service_(&service), process_(process), asked_(std::move(asked)), period_(period) {}

  ProfilerService* service_;
  RequestedProcess process_;
  ValuesRequest asked_;
  std::chrono::nanoseconds period_;
  std::unique_ptr<ValueWatch> watch_ = std::make_unique<ValueWatch>();
};

// Sends the values whenever some have changed, until the client leaves or the program ends. Errors
// as for ValuesStream.
absl::Status watch_values(ProfilerService& service,
                          const ::memprof::v1::WatchValuesRequest& request,
                          const StreamCall<::memprof::v1::WatchValuesResponse>& call);

// Text of a request in memprofd's log: "adjust 'queue' {route=/a} (off, period 100 ms)".
std::string name_of(const ::memprof::v1::AdjustRequest& request);
std::string name_of(const ::memprof::v1::KeepValuesRequest& request);

::memprof::v1::Value to_proto(const Value& value);
void put_labels(const ValueLabels& labels,
                google::protobuf::RepeatedPtrField<::memprof::v1::ReportedLabel>& out);
// Published values of a target over time. kInvalidArgument for an invalid request.
absl::StatusOr<::memprof::v1::GetValueHistoryResponse> value_history(
    const ProfileSnapshot& target, const ::memprof::v1::GetValueHistoryRequest& request);

}  // namespace memprofd
