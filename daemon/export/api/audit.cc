// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/audit.h"

#include "absl/strings/str_cat.h"
#include "daemon/util/about_pid.h"
#include "daemon/util/log.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd {

void audit(int pid, std::string_view what, std::string_view who, const absl::Status& outcome,
           std::string_view done) {
  const std::string line =
      absl::StrCat("pid ", pid, ": ", absl::string_view(what.data(), what.size()), " by ",
                   printable(std::string(who)));
  if (outcome.ok()) {
    log_info("{}: done{}{}", line, done.empty() ? "" : ", ", done);
  } else {
    log_warning("{}: refused: {}", line,
                printable(without_pid(pid, std::string(outcome.message()))));
  }
}

namespace {

template <typename Request>
std::string budget_name(const Request& request) {
  if (!request.has_max_overhead()) return "";
  return request.max_overhead() == 0
             ? ", no budget"
             : absl::StrCat(", budget ", format_share(request.max_overhead(), 1));
}

}  // namespace

std::string name_of(const ::memprof::v1::AttachRequest& request) {
  std::string details = request.sampling_rate() == 0
                            ? "default rate"
                            : absl::StrCat(request.sampling_rate(), "/word");
  absl::StrAppend(&details, budget_name(request));
  if (request.follow_forks()) absl::StrAppend(&details, ", with its children");
  if (request.c_heap_interval() != 0) absl::StrAppend(&details, ", with C memory");
  return absl::StrCat("attach (", details, ")");
}

std::string name_of(const ::memprof::v1::DetachRequest& /*request*/) { return "detach"; }

std::string name_of(const ::memprof::v1::SetRateRequest& request) {
  return absl::StrCat(
      "rate ",
      request.sampling_rate() == 0 ? "as it is" : absl::StrCat(request.sampling_rate(), "/word"),
      budget_name(request));
}

std::string cost_of(const ::memprof::v1::SnapshotSummary& summary) {
  return absl::StrCat("stood still for ", format_duration(summary.pause_seconds()), " (",
                      format_duration(summary.predicted_pause_seconds()), " predicted), ",
                      format_bytes(static_cast<double>(summary.file_bytes())));
}

}  // namespace memprofd
