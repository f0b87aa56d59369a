// SPDX-License-Identifier: Apache-2.0
// Values of a target's modules as the API's messages.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/export/api/service.h"
#include "daemon/values/value_watch.h"
#include "memprof/v1/values.pb.h"

namespace memprofd {

// Thread-safe.
class ValuesService {
 public:
  // service must outlive this.
  explicit ValuesService(ProfilerService& service) : service_(service) {}

  // wanted: whether somebody still waits. kInvalidArgument when the request makes no sense, else
  // what ProfilerService says.
  absl::StatusOr<::memprof::v1::ListValuesResponse> list_values(
      const ::memprof::v1::ListValuesRequest& request, const std::function<bool()>& wanted);

  absl::StatusOr<::memprof::v1::ResumeResponse> resume(const ::memprof::v1::ResumeRequest& request);

  absl::StatusOr<::memprof::v1::AdjustResponse> adjust(const ::memprof::v1::AdjustRequest& request);

  absl::StatusOr<::memprof::v1::KeepValuesResponse> keep(
      const ::memprof::v1::KeepValuesRequest& request);

  absl::StatusOr<::memprof::v1::AskResponse> ask(const ::memprof::v1::AskRequest& request,
                                                 const std::function<bool()>& wanted);

  // Whether the caller may have lines is the caller's business.
  absl::StatusOr<::memprof::v1::GetValueHistoryResponse> history(
      const ::memprof::v1::GetValueHistoryRequest& request);

 private:
  ProfilerService& service_;
};

// What one request to watch values is answered with, message by message. Not thread-safe.
class ValuesStream {
 public:
  // service must outlive it. kInvalidArgument when the request makes no sense.
  static absl::StatusOr<ValuesStream> open(ProfilerService& service,
                                           const ::memprof::v1::WatchValuesRequest& request);

  // Errors as of ValuesService::list_values().
  absl::StatusOr<::memprof::v1::WatchValuesResponse> next(const std::function<bool()>& wanted);
  std::chrono::nanoseconds period() const { return period_; }

 private:
  ValuesStream(ProfilerService& service, int pid, ValuesRequest asked,
               std::chrono::nanoseconds period)
      : service_(&service), pid_(pid), asked_(std::move(asked)), period_(period) {}

  ProfilerService* service_;
  int pid_;
  ValuesRequest asked_;
  std::chrono::nanoseconds period_;
  std::unique_ptr<ValueWatch> watch_ = std::make_unique<ValueWatch>();
};

// What was asked, as memprofd's log has it: "adjust 'queue' {route=/a} (off, period 100 ms)".
std::string text_of(const ::memprof::v1::AdjustRequest& request);
std::string text_of(const ::memprof::v1::KeepValuesRequest& request);

::memprof::v1::Value to_proto(const Value& value);
void put_labels(const ValueLabels& labels,
                google::protobuf::RepeatedPtrField<::memprof::v1::ReportedLabel>& out);
// What a target has said about itself. kInvalidArgument when the request makes no sense.
absl::StatusOr<::memprof::v1::GetValueHistoryResponse> value_history(
    const TargetSnapshot& target, const ::memprof::v1::GetValueHistoryRequest& request);

}  // namespace memprofd
