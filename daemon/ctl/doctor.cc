// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/doctor.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"

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

}  // namespace

pb::DiagnoseResponse local_findings(const absl::Status& unreachable, int pid) {
  pb::DiagnoseResponse out;
  const std::string message(unreachable.message());
  const std::size_t cause_ends = message.find("; ");
  add(out, pb::FINDING_LEVEL_PROBLEM, "daemon", message.substr(0, cause_ends),
      cause_ends == message.npos ? "" : message.substr(cause_ends + 2));
  if (::geteuid() == 0) {
    add(out, pb::FINDING_LEVEL_OK, "privileges", "running as root", "");
  } else {
    add(out, pb::FINDING_LEVEL_WARNING, "privileges", "not root: memprofd needs root to attach",
        "start memprofd as root; memprofctl needs access to its socket only");
  }
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
