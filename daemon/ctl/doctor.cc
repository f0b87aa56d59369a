// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/doctor.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/attach/kernel/kernel_features.h"

namespace memprofd::ctl {

namespace pb = ::memprof::v1;

namespace {

void add(pb::DiagnoseResponse& out, pb::FindingLevel level, const std::string& subject,
         const std::string& detail, const std::string& remedy) {
  pb::Finding& finding = *out.add_findings();
  finding.set_level(level);
  finding.set_subject(subject);
  finding.set_detail(detail);
  finding.set_remedy(remedy);
}

// Kernel features are the same for memprofd, but this user may have fewer privileges than memprofd
// will have.
void add_kernel(pb::DiagnoseResponse& out) {
  std::vector<std::string> missing;
  for (const FeatureCheck& check : check_kernel_features()) {
    if (check.privilege) {
      if (!check.ok) missing.push_back(check.name);
      continue;
    }
    const pb::FindingLevel failed =
        check.required ? pb::FINDING_LEVEL_PROBLEM : pb::FINDING_LEVEL_WARNING;
    add(out, check.ok ? pb::FINDING_LEVEL_OK : failed, check.name, check.detail, check.remedy);
  }
  if (missing.empty()) {
    add(out, pb::FINDING_LEVEL_OK, "privileges", "everything that memprofd needs", "");
  } else {
    add(out, pb::FINDING_LEVEL_WARNING, "privileges",
        absl::StrCat("this user lacks ", absl::StrJoin(missing, ", ")),
        "start memprofd as root (memprofctl needs access to its socket only), or profile without "
        "root: memprofctl run");
  }
}

}  // namespace

pb::DiagnoseResponse local_findings(const absl::Status& unreachable, int pid) {
  pb::DiagnoseResponse out;
  const std::string message(unreachable.message());
  const std::size_t cause_ends = message.find("; ");
  add(out, pb::FINDING_LEVEL_PROBLEM, "daemon", message.substr(0, cause_ends),
      cause_ends == message.npos ? "" : message.substr(cause_ends + 2));
  add_kernel(out);
  if (pid > 0) {
    const bool exists = ::access(absl::StrCat("/proc/", pid).c_str(), F_OK) == 0;
    add(out, exists ? pb::FINDING_LEVEL_OK : pb::FINDING_LEVEL_PROBLEM, "process",
        absl::StrCat("pid ", pid, exists ? " exists" : " does not exist"),
        exists ? "" : "check the pid with pgrep");
  }
  return out;
}

absl::Status verdict(const pb::DiagnoseResponse& response, int pid) {
  int problems = 0;
  for (const pb::Finding& finding : response.findings()) {
    problems += finding.level() == pb::FINDING_LEVEL_PROBLEM;
  }
  if (problems == 0) return absl::OkStatus();
  const std::string message =
      absl::StrCat(problems, problems == 1 ? " problem" : " problems", " found; see above");
  if (pid == 0) return absl::PermissionDeniedError(message);
  return absl::FailedPreconditionError(message);
}

}  // namespace memprofd::ctl
