// SPDX-License-Identifier: Apache-2.0
// Sends questions to a FakeService like memprofctl to a daemon.
#pragma once

#include <utility>

#include "daemon/ctl/top/top_question.h"
#include "daemon/export/api/query_service.h"
#include "daemon/export/api/values_service.h"
#include "tests/kit/fake_service.h"

namespace memprofd::testing {

namespace pb = ::memprof::v1;

class FakeQuestions : public ctl::Questions {
 public:
  explicit FakeQuestions(std::vector<ProfileSnapshotPtr> targets = {fixed_target()})
      : service_(std::move(targets)), queries_(service_) {}
  FakeService& service() { return service_; }

  absl::StatusOr<pb::ListTargetsResponse> list_targets() override {
    return queries_.list_targets();
  }
  absl::StatusOr<pb::ListSitesResponse> list_sites(const pb::ListSitesRequest& request) override {
    return queries_.list_sites(request);
  }
  absl::StatusOr<pb::DiffSitesResponse> diff_sites(const pb::DiffSitesRequest& request) override {
    return queries_.diff_sites(request);
  }
  absl::StatusOr<pb::ListCallersResponse> list_callers(
      const pb::ListCallersRequest& request) override {
    return queries_.list_callers(request);
  }
  absl::StatusOr<pb::ListLeaksResponse> list_leaks(const pb::ListLeaksRequest& request) override {
    return queries_.list_leaks(request);
  }
  absl::StatusOr<pb::GetHistoryResponse> get_history(
      const pb::GetHistoryRequest& request) override {
    return queries_.get_history(request);
  }
  absl::StatusOr<pb::GetProfileResponse> get_profile(
      const pb::GetProfileRequest& request) override {
    return queries_.get_profile(request);
  }
  absl::StatusOr<pb::GetValueHistoryResponse> get_value_history(
      const pb::GetValueHistoryRequest& request) override {
    return ValuesService(service_).history(request);
  }

 private:
  FakeService service_;
  QueryService queries_;
};

}  // namespace memprofd::testing
