// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/audit.h"

#include "absl/strings/str_cat.h"
#include "daemon/util/log.h"
#include "daemon/util/utf8.h"

namespace memprofd {

void audit(int pid, std::string_view what, std::string_view who, const absl::Status& outcome) {
  const std::string line =
      absl::StrCat("pid ", pid, ": ", absl::string_view(what.data(), what.size()), " by ",
                   printable(std::string(who)));
  if (outcome.ok()) {
    log_info("{}: done", line);
  } else {
    log_warning("{}: refused: {}", line, printable(std::string(outcome.message())));
  }
}

std::string name_of(const ::memprof::v1::AttachRequest& request) {
  std::string details = request.sampling_rate() == 0
                            ? "default rate"
                            : absl::StrCat(request.sampling_rate(), "/word");
  if (request.max_overhead() != 0) absl::StrAppend(&details, ", budget ", request.max_overhead());
  if (request.follow_forks()) absl::StrAppend(&details, ", with its children");
  return absl::StrCat("attach (", details, ")");
}

std::string name_of(const ::memprof::v1::DetachRequest& /*request*/) { return "detach"; }

std::string name_of(const ::memprof::v1::SetRateRequest& request) {
  return absl::StrCat("rate ", request.sampling_rate(), "/word");
}

}  // namespace memprofd
