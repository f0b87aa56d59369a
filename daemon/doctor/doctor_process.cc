// SPDX-License-Identifier: Apache-2.0
#include "daemon/doctor/doctor_process.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/attach/inject/agent_memfd.h"
#include "daemon/attach/inject/seccomp_filter.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

using Level = Finding::Level;
using Findings = std::vector<Finding>;

constexpr char kPreload[] = "start it with LD_PRELOAD=libmemprof_agent.so";

std::string read_link(const std::string& path) {
  std::error_code error;
  return std::filesystem::read_symlink(path, error).string();
}

void examine_state(const ProcessStatus& status, Findings& findings) {
  const std::string threads =
      absl::StrCat(status.threads, status.threads == 1 ? " thread" : " threads");
  switch (status.state) {
    case 'T':
      findings.push_back({Level::kWarning, "state", absl::StrCat(threads, ", stopped by a signal"),
                          "sampling begins once it continues (kill -CONT)"});
      return;
    case 'Z':
    case 'X':
      findings.push_back({Level::kProblem, "state",
                          "has ended; its parent has not collected it yet",
                          "check the pid with pgrep"});
      return;
    default:
      findings.push_back({Level::kOk, "state", threads, ""});
  }
}

void examine_tracer(const ProcessStatus& status, bool injection_needed, Findings& findings) {
  if (status.tracer_pid == 0) return;
  findings.push_back({injection_needed ? Level::kProblem : Level::kOk, "tracer",
                      absl::StrCat("traced by pid ", status.tracer_pid, " (a debugger?)"),
                      injection_needed ? "detach that first" : ""});
}

void examine_seccomp(const ProcessStatus& status, bool injection_needed, Findings& findings) {
  if (status.seccomp == 0) {
    findings.push_back({Level::kOk, "seccomp", "no filter", ""});
  } else if (const std::string hidden = why_filters_are_hidden();
             injection_needed && !hidden.empty()) {
    findings.push_back({Level::kWarning, "seccomp",
                        absl::StrCat("a filter, which might kill it during an injection and cannot "
                                     "be read: ",
                                     hidden),
                        kPreload});
  } else if (injection_needed) {
    findings.push_back(
        {Level::kOk, "seccomp", "a filter, which memprofd checks before it injects anything", ""});
  } else {
    findings.push_back({Level::kOk, "seccomp", "a filter; no injection is needed", ""});
  }
}

// Injection stops a thread with SIGURG before that thread loads the agent.
void examine_signals(const ProcFs& proc, int pid, bool injection_needed, Findings& findings) {
  const auto tasks = proc.tasks(pid);
  if (!injection_needed || !tasks.ok()) return;
  const bool all_block = std::all_of(tasks->begin(), tasks->end(), [&](int tid) {
    const auto status = proc.thread_status(pid, tid);
    return status.ok() && (status->signals_blocked >> (SIGURG - 1) & 1) != 0;
  });
  if (!all_block) return;
  findings.push_back({Level::kWarning, "signals",
                      "every thread blocks SIGURG, which memprofd needs to load the agent",
                      kPreload});
}

// Reports namespaces: "pid 7 inside; its own mount, user namespace".
void examine_namespaces(const ProcFs& proc, int pid, const ProcessStatus& status,
                        Findings& findings) {
  std::vector<std::string> own;
  for (const std::string kind : {"mnt", "pid", "user"}) {
    const std::string name = absl::StrCat("ns/", kind);
    const std::string theirs = read_link(proc.path(pid, name));
    const std::string ours = read_link(absl::StrCat(proc.root(), "/self/", name));
    if (!theirs.empty() && theirs != ours) own.push_back(kind == "mnt" ? "mount" : kind);
  }
  std::vector<std::string> parts;
  if (status.ns_pids.size() > 1)
    parts.push_back(absl::StrCat("pid ", status.ns_pids.back(), " inside"));
  if (!own.empty()) parts.push_back(absl::StrCat("its own: ", absl::StrJoin(own, ", ")));
  findings.push_back({Level::kOk, "namespaces",
                      parts.empty() ? "those of memprofd" : absl::StrJoin(parts, "; "), ""});
}

// During injection the program opens the agent by name, or a copy through its own file descriptor.
void examine_root(const ProcFs& proc, int pid, bool injection_needed, const std::string& agent_path,
                  Findings& findings) {
  if (!injection_needed || !std::filesystem::path(agent_path).is_absolute()) return;
  if (sees_file(proc, pid, agent_path)) return;
  const absl::Status copied = check_proc_inside(proc, pid);
  findings.push_back({copied.ok() ? Level::kOk : Level::kWarning, "file system",
                      absl::StrCat("the program does not see ", agent_path,
                                   copied.ok() ? ": it will receive a copy in memory" : ""),
                      copied.ok() ? "" : std::string(copied.message())});
}

void examine_libc(const ProcFs& proc, int pid, bool injection_needed, Findings& findings) {
  const auto maps = proc.maps(pid);
  if (!maps.ok()) return;
  for (const Mapping& mapping : *maps) {
    const std::string name = std::filesystem::path(mapping.path).filename();
    if (!mapping.executable) continue;
    if (name == "libc.so.6" || name.starts_with("libc-2.")) {
      findings.push_back({Level::kOk, "C library", absl::StrCat("GNU, ", mapping.path), ""});
      return;
    }
    if (!name.starts_with("ld-musl") && !name.starts_with("libc.musl")) continue;
    findings.push_back({injection_needed ? Level::kWarning : Level::kOk, "C library",
                        absl::StrCat("musl, ", mapping.path),
                        injection_needed ? "build the program with a GNU C library" : ""});
    return;
  }
  findings.push_back({injection_needed ? Level::kWarning : Level::kOk, "C library",
                      "no shared one: a static program",
                      injection_needed ? "link the program with the memprof-agent package" : ""});
}

// The soft limit in bytes; nothing if there is no limit.
std::optional<std::uint64_t> stack_limit(const ProcFs& proc, int pid) {
  constexpr std::string_view kLabel = "Max stack size";
  std::ifstream file(proc.path(pid, "limits"));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kLabel)) continue;
    const std::size_t at = line.find_first_not_of(' ', kLabel.size());
    if (at == std::string::npos) return std::nullopt;
    std::uint64_t bytes = 0;
    const auto parsed = std::from_chars(line.data() + at, line.data() + line.size(), bytes);
    if (parsed.ec == std::errc()) return bytes;
  }
  return std::nullopt;
}

void examine_stack_limit(const ProcFs& proc, int pid, bool injection_needed, Findings& findings) {
  // Loading the agent takes 256 KiB below the program's own stack frames.
  constexpr std::uint64_t kSmall = 1u << 20;
  const auto limit = stack_limit(proc, pid);
  const bool small = limit && *limit < kSmall && injection_needed;
  findings.push_back(
      {small ? Level::kWarning : Level::kOk, "stack limit",
       limit ? format_bytes(static_cast<double>(*limit)) : "none",
       small ? absl::StrCat("the agent may not fit: raise it (ulimit -s), or ", kPreload) : ""});
}

}  // namespace

bool forbids_injection(const Finding& finding) {
  return finding.level != Level::kOk &&
         (finding.subject == "tracer" || finding.subject == "seccomp" ||
          finding.subject == "file system" || finding.subject == "C library");
}

std::vector<Finding> examine_process(const ProcFs& proc, int pid, bool injection_needed,
                                     const std::string& agent_path) {
  Findings findings;
  const auto status = proc.status(pid);
  if (!status.ok()) return findings;
  examine_state(*status, findings);
  if (status->has_ended()) return findings;
  examine_tracer(*status, injection_needed, findings);
  examine_seccomp(*status, injection_needed, findings);
  examine_signals(proc, pid, injection_needed, findings);
  examine_namespaces(proc, pid, *status, findings);
  examine_root(proc, pid, injection_needed, agent_path, findings);
  examine_libc(proc, pid, injection_needed, findings);
  examine_stack_limit(proc, pid, injection_needed, findings);
  return findings;
}

}  // namespace memprofd
