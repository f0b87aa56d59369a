// SPDX-License-Identifier: Apache-2.0
#include "daemon/doctor/doctor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/attach/agent_plan.h"
#include "daemon/attach/budget/trap_cost.h"
#include "daemon/attach/inject/agent_file.h"
#include "daemon/attach/kernel/kernel_features.h"
#include "daemon/attach/kernel/kernel_walk.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/discover/program_check.h"
#include "daemon/discover/target.h"
#include "daemon/doctor/doctor_process.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

using Level = Finding::Level;
using Findings = std::vector<Finding>;

// The agent's absolute path; empty when it cannot be used.
std::string check_agent_file(const std::string& path, Findings& findings) {
  const auto file = open_agent_file(path);
  if (!file.ok()) {
    findings.push_back({Level::kProblem, "agent", std::string(file.status().message()),
                        "build or install all of memprofd, or name the agent with --agent"});
    return "";
  }
  findings.push_back({Level::kOk, "agent", file->path, ""});
  return file->path;
}

bool can_be_observed_only(const ElfFile& program) {
  const auto checked = check_program(program);
  return checked.ok() && !checked->why_no_agent.empty();
}

// Reports the runtime's symbols, even if the program is refused because of its version.
void describe_symbols(const ElfFile& program, Findings& findings) {
  const RuntimeSymbolCheck check = locate_symbols(program);
  if (check.missing.size() == check.wanted)
    return;  // not an OCaml program, which another line reports
  const std::size_t found = check.wanted - check.missing.size();
  const std::string where = program.has_symtab() ? "" : ", exported ones (the program is stripped)";
  const std::string detail =
      absl::StrCat(found, " of ", check.wanted, " of the runtime's found", where);
  if (check.missing.empty()) {
    findings.push_back({Level::kOk, "symbols", detail, ""});
  } else if (can_be_observed_only(program)) {
    findings.push_back({Level::kOk, "symbols", detail + ", among them all for observe mode", ""});
  } else {
    findings.push_back({Level::kProblem, "symbols",
                        absl::StrCat(detail, "; missing: ", absl::StrJoin(check.missing, ", ")),
                        "keep the program's symbol table (no strip), and use an OCaml version that "
                        "memprofd supports"});
  }
}

void describe_program(int pid, Findings& findings) {
  const ProcFs proc;
  const auto program = ElfFile::open(proc.path(pid, "exe"), proc.exe(pid).value_or("?"));
  if (program.ok()) describe_symbols(**program, findings);
}

// The cost of an emulated probe hit: "1.3 us a sample, measured here".
std::string emulated_cost(const std::string& when) {
  const TrapCost cost = trap_cost();
  return absl::StrCat(format_duration(cost.ns * 1e-9), " ", when,
                      cost.measured ? ", measured here" : " as a rule, not measured here");
}

void describe_probe(const std::string& subject, const ProbePoint& probe, const std::string& when,
                    Findings& findings) {
  const std::string where = absl::StrCat("on `", probe.instruction, "`");
  if (probe.cheap) {
    findings.push_back(
        {Level::kOk, subject, absl::StrCat(where, ", emulated: ", emulated_cost(when)), ""});
  } else {
    findings.push_back({Level::kWarning, subject,
                        absl::StrCat(where, ", single-stepped: about 10 us ", when),
                        "leave --capture at auto, or use runtime or agent"});
  }
}

void describe_probes(const Target& target, Findings& findings) {
  if (!target.why_no_agent.empty()) {
    describe_probe("observe probe", target.slow_allocation, "a minor collection or signal",
                   findings);
    return;
  }
  if (kernel_can_walk()) describe_probe("capture probe", target.capture, "a sample", findings);
  // This probe costs something only during the injection.
  findings.push_back({Level::kOk, "safe point probe",
                      absl::StrCat("on `", target.safe_point.instruction, "`, ",
                                   target.safe_point.cheap ? "emulated" : "single-stepped",
                                   "; while the agent is injected"),
                      ""});
  // The agent's own function, which begins with a nop.
  findings.push_back({Level::kOk, "batch probe",
                      absl::StrCat("on `nop`, emulated: ", emulated_cost("a batch of samples")),
                      ""});
}

void describe_frames(const Target& target, Findings& findings) {
  const KernelFrameTable table =
      build_kernel_frame_table(target.frames, target.room_for_plugins, target.budget);
  std::uint64_t unusable = target.frames.skipped + table.left_out;
  std::uint64_t of_plugins = 0;
  for (const OcamlCode& plugin : target.plugins) {
    of_plugins += plugin.frames.descriptors().size();
    unusable += plugin.frames.skipped;
  }
  const std::string plugins =
      target.plugins.empty()
          ? ""
          : absl::StrCat(", ", of_plugins, " of ", target.plugins.size(), " plugins");
  const std::string size =
      absl::StrCat(target.frames.descriptors().size(), " descriptors", plugins, ", ",
                   format_bytes(static_cast<double>(table.slots.size() * sizeof table.slots[0])),
                   " in the kernel");
  if (unusable == 0) {
    findings.push_back({Level::kOk, "frame tables", size, ""});
  } else {
    findings.push_back({Level::kWarning, "frame tables",
                        absl::StrCat(size, ", ", unusable, " malformed or too many"),
                        "callstacks through those are truncated"});
  }
}

// Reports observe mode. why: the reason against an agent.
Finding observed(Level level, const std::string& why, const std::string& remedy) {
  if (kernel_can_walk()) return {level, "mode", absl::StrCat("observe: ", why), remedy};
  return {Level::kProblem, "mode",
          absl::StrCat("none: ", why, ", and this kernel cannot walk callstacks to observe it"),
          remedy.empty() ? "boot Linux 5.17 or later" : remedy};
}

// The mode that an attach would choose.
Finding mode_of(const Target& target, const absl::StatusOr<AgentPlan>& there,
                const Findings& process) {
  if (!there.ok()) return {Level::kProblem, "mode", std::string(there.status().message()), ""};
  if (!there->why_none.empty()) return observed(Level::kOk, there->why_none, "");
  if (there->there && there->there->state == MEMPROF_AGENT_IN_USE) {
    return observed(Level::kWarning, "its agent has found Gc.Memprof in use by the program itself",
                    "stop the program's tracker; if it is attached, detach and attach again");
  }
  if (there->there)
    return {Level::kOk, "mode", absl::StrCat("agent, already loaded: ", there->agent.path), ""};
  if (!target.why_no_agent.empty()) return observed(Level::kOk, target.why_no_agent, "");
  const auto obstacle = std::find_if(process.begin(), process.end(), forbids_injection);
  if (obstacle == process.end()) {
    return {Level::kOk, "mode",
            "agent, by injection: Gc.Memprof is available and nothing forbids it", ""};
  }
  const std::string why =
      absl::StrCat("an agent would have to be injected, and ", obstacle->subject, " forbids it");
  if (obstacle->level == Level::kWarning && target.why_no_observe.empty())
    return observed(Level::kWarning, why, obstacle->remedy);
  return {Level::kProblem, "mode", absl::StrCat("none: ", why), obstacle->remedy};
}

void append(const Findings& more, Findings& findings) {
  findings.insert(findings.end(), more.begin(), more.end());
}

// Reports why the target is refused (status), and the facts that can be determined anyway.
void describe_refused(int pid, const absl::Status& status, Findings& findings) {
  findings.push_back({Level::kProblem, "target", std::string(status.message()),
                      absl::IsNotFound(status) ? "check the pid with pgrep" : ""});
  describe_program(pid, findings);
  append(examine_process(ProcFs(), pid, false, ""), findings);
}

void describe_target(int pid, const std::string& agent_path, const std::stop_token& stop,
                     Findings& findings) {
  const auto target = discover_target(pid, "/proc", stop);
  if (!target.ok()) return describe_refused(pid, target.status(), findings);
  findings.push_back(
      {Level::kOk, "target",
       absl::StrCat(target->comm, " (", target->exe, "), OCaml ", target->abi.version), ""});
  describe_program(pid, findings);
  describe_frames(*target, findings);
  describe_probes(*target, findings);
  const absl::StatusOr<AgentPlan> there = read_agent_status(*target);
  const bool injects = there.ok() && !there->there && there->why_none.empty();
  const Findings process =
      examine_process(ProcFs(), pid, injects && target->why_no_agent.empty(), agent_path);
  append(process, findings);
  findings.push_back(mode_of(*target, there, process));
}

}  // namespace

std::vector<Finding> run_doctor(int pid, const std::string& agent_path,
                                const std::stop_token& stop) {
  Findings findings;
  for (const FeatureCheck& check : check_kernel_features()) {
    const Level failed = check.required ? Level::kProblem : Level::kWarning;
    findings.push_back({check.ok ? Level::kOk : failed, check.name, check.detail, check.remedy});
  }
  const std::string agent = check_agent_file(agent_path, findings);
  if (pid != 0) describe_target(pid, agent, stop, findings);
  return findings;
}

}  // namespace memprofd
