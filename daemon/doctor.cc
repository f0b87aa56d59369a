#include "daemon/doctor.h"

#include "absl/strings/str_cat.h"
#include "daemon/attach/agent_file.h"
#include "daemon/attach/kernel_features.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/discover/target.h"

namespace memprofd {
namespace {

using Level = Finding::Level;

void check_agent_file(const std::string& path, std::vector<Finding>& findings) {
  const auto file = open_agent_file(path);
  if (file.ok()) {
    findings.push_back({Level::kOk, "agent", file->path, ""});
  } else {
    findings.push_back({Level::kProblem, "agent", std::string(file.status().message()),
                        "build or install memprofd whole, or name the agent with --agent"});
  }
}

void describe_probe(const Target& target, std::vector<Finding>& findings) {
  const ProbePoint& probe = target.why_no_agent.empty() ? target.capture : target.slow_allocation;
  const std::string where = absl::StrCat("on `", probe.instruction, "`");
  if (probe.cheap) {
    findings.push_back({Level::kOk, "capture probe", where + ", about 1 us a sample", ""});
  } else {
    findings.push_back({Level::kWarning, "capture probe",
                        where + ", single-stepped: about 10 us a sample",
                        "use a sampling rate of 1e-5 or less"});
  }
}

void describe_process(int pid, bool agent_present, std::vector<Finding>& findings) {
  const auto status = ProcFs().status(pid);
  if (!status.ok()) return;
  if (status->ns_pids.size() > 1) {
    findings.push_back({Level::kOk, "namespace",
                        absl::StrCat("pid ", status->ns_pids.back(), " in its own namespace"), ""});
  }
  if (agent_present) return;
  if (status->tracer_pid != 0) {
    findings.push_back({Level::kProblem, "injection",
                        absl::StrCat("traced by pid ", status->tracer_pid), "detach that first"});
  }
  if (status->seccomp != 0) {
    findings.push_back({Level::kProblem, "injection", "the program runs under a seccomp filter",
                        "start it with LD_PRELOAD=libmemprof_agent.so"});
  }
}

std::string mode_words(const Target& target) {
  if (!target.why_no_agent.empty()) return absl::StrCat("observe: ", target.why_no_agent);
  if (target.agents.empty()) return "agent, to be injected";
  return absl::StrCat("agent, in ", target.agents[0].path);
}

void describe_target(int pid, std::vector<Finding>& findings) {
  const auto target = discover_target(pid);
  if (!target.ok()) {
    findings.push_back({Level::kProblem, "target", std::string(target.status().message()), ""});
    return;
  }
  findings.push_back(
      {Level::kOk, "target",
       absl::StrCat(target->comm, " (", target->exe, "), OCaml ", target->abi.version), ""});
  const auto& frames = target->frames;
  findings.push_back(
      {frames.skipped == 0 ? Level::kOk : Level::kWarning, "frame tables",
       absl::StrCat(frames.descriptors().size(), " descriptors, ", frames.skipped, " malformed"),
       frames.skipped == 0 ? "" : "callstacks through those are cut"});
  describe_probe(*target, findings);
  findings.push_back({Level::kOk, "mode", mode_words(*target), ""});
  describe_process(pid, !target->agents.empty() || !target->why_no_agent.empty(), findings);
}

}  // namespace

std::vector<Finding> run_doctor(int pid, const std::string& agent_path) {
  std::vector<Finding> findings;
  for (const FeatureCheck& check : check_kernel_features()) {
    findings.push_back(
        {check.ok ? Level::kOk : Level::kProblem, check.name, check.detail, check.remedy});
  }
  check_agent_file(agent_path, findings);
  if (pid != 0) describe_target(pid, findings);
  return findings;
}

}  // namespace memprofd
