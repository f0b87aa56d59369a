// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/kernel_features.h"

#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/capability.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/attach/kernel/bpf_support.h"
#include "daemon/attach/kernel/kernel_structures.h"
#include "daemon/attach/kernel/uprobe_link.h"

namespace memprofd {
namespace {

std::optional<std::string> read_first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return line;
}

FeatureCheck failed(std::string name, std::string detail, std::string remedy) {
  return {std::move(name), false, std::move(detail), std::move(remedy)};
}

FeatureCheck passed(std::string name, std::string detail) {
  return {std::move(name), true, std::move(detail), ""};
}

FeatureCheck check_kernel_version(const std::string& proc_root) {
  const auto release = read_first_line(proc_root + "/sys/kernel/osrelease");
  return passed("kernel", release ? absl::StrCat("Linux ", *release) : "of an unknown version");
}

FeatureCheck check_bpf(const std::string& name, const std::string& since,
                       const std::function<int()>& probe) {
  const int answer = probe();
  if (answer > 0) return passed(name, "supported");
  if (answer == 0)
    return failed(name, "not supported by this kernel",
                  absl::StrCat("boot Linux ", since, " or later"));
  return failed(name, absl::StrCat("cannot ask the kernel: ", std::strerror(-answer)),
                "run as root or with CAP_BPF and CAP_PERFMON");
}

// Tests a feature by trying it. Without the privilege the kernel always refuses.
constexpr char kNotChecked[] = "not checked: requires the privilege to load BPF programs";

FeatureCheck check_bpf_if(bool privileged, const std::string& name, const std::string& since,
                          const std::function<int()>& probe) {
  return privileged ? check_bpf(name, since, probe) : passed(name, kNotChecked);
}

// Without this feature runtime capture remains.
FeatureCheck check_walk(bool privileged, const std::function<int()>& probe) {
  FeatureCheck check = check_bpf_if(privileged, "BPF loop helper", "5.17", probe);
  check.required = false;
  const std::string what = ": the runtime captures callstacks, and nothing can be observed";
  if (!check.ok && check.remedy.starts_with("boot")) check.detail += what;
  return check;
}

FeatureCheck check_kernel_types(const std::string& sys_root) {
  constexpr const char* kName = "kernel type information";
  if (has_kernel_types(sys_root)) return passed(kName, "BTF");
  FeatureCheck check = failed(
      kName,
      absl::StrCat(
          "cannot read ", sys_root, "/kernel/btf/vmlinux",
          ": children cannot be followed, and the end of a program is reported without its cause"),
      "boot a kernel built with CONFIG_DEBUG_INFO_BTF");
  check.required = false;
  return check;
}

// At level 3 not even root may trace processes until the next boot.
FeatureCheck check_ptrace_scope(const std::string& proc_root) {
  constexpr const char* kName = "ptrace scope";
  const auto scope = read_first_line(proc_root + "/sys/kernel/yama/ptrace_scope");
  if (!scope) return passed(kName, "not limited");
  if (std::atoi(scope->c_str()) < 3)
    return passed(kName, absl::StrCat(*scope, "; CAP_SYS_PTRACE is exempt"));
  return failed(kName, absl::StrCat(*scope, ": no process may be inspected"),
                "boot with kernel.yama.ptrace_scope (/etc/sysctl.d) at 2 or less");
}

// Without the privilege, whether there are uprobe_multi links (Linux 6.6) is not known.
FeatureCheck check_uprobe_events(const std::string& sys_root, bool privileged, bool multi_links) {
  if (multi_links) return passed("uprobe events", "uprobe_multi links");
  const std::string path = sys_root + "/bus/event_source/devices/uprobe/type";
  const auto type = read_first_line(path);
  if (type)
    return passed("uprobe events",
                  absl::StrCat("perf event type ", *type,
                               privileged ? "; Linux 6.6 has cheaper ones"
                                          : absl::StrCat("; cheaper ones ", kNotChecked)));
  return failed("uprobe events", absl::StrCat("cannot read ", path),
                "mount /sys, or boot a kernel built with CONFIG_UPROBE_EVENTS");
}

FeatureCheck check_semaphores(const std::string& sys_root, bool multi_links) {
  if (multi_links) return passed("uprobe semaphores", "uprobe_multi links");
  const std::string path = sys_root + "/bus/event_source/devices/uprobe/format/ref_ctr_offset";
  const auto format = read_first_line(path);
  if (format) return passed("uprobe semaphores", absl::StrCat("ref_ctr_offset in ", *format));
  return failed("uprobe semaphores", absl::StrCat("cannot read ", path),
                "boot Linux 4.20 or later, which counts USDT semaphores");
}

// "none [integrity] confidentiality": the bracketed word is in force.
std::string lockdown_mode(const std::string& sys_root) {
  const auto line = read_first_line(sys_root + "/kernel/security/lockdown");
  if (!line) return "none";
  const auto open = line->find('['), close = line->find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "none";
  return line->substr(open + 1, close - open - 1);
}

// Integrity mode forbids BPF to write user memory, which the programs do not. Confidentiality mode
// forbids it to read kernel memory, and the loader (libbpf) mistakes that for a kernel that cannot
// distinguish reads of user memory.
FeatureCheck check_lockdown(const std::string& sys_root) {
  const std::string mode = lockdown_mode(sys_root);
  if (mode == "none") return passed("kernel lockdown", "none");
  if (mode == "confidentiality")
    return failed("kernel lockdown", "confidentiality: BPF programs that read memory are refused",
                  "boot with lockdown=integrity or none");
  return passed("kernel lockdown", absl::StrCat(mode, "; uses nothing that it forbids"));
}

// The effective capabilities as bits; none when /proc cannot be read.
std::uint64_t effective_capabilities(const std::string& proc_root) {
  constexpr const char* kLabel = "CapEff:";
  std::ifstream file(proc_root + "/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kLabel))
      return std::strtoull(line.c_str() + std::strlen(kLabel), nullptr, 16);
  }
  return 0;
}

FeatureCheck as_privilege(FeatureCheck check) {
  check.privilege = true;
  return check;
}

FeatureCheck check_capabilities(const std::string& name, const std::string& wanted, bool held) {
  if (held) return as_privilege(passed(name, "held"));
  return as_privilege(failed(name, "missing", absl::StrCat("run as root or with ", wanted)));
}

// A process that may load programs may also place uprobe_multi links; uprobes by perf events need
// more, on every kernel.
FeatureCheck check_probe_privilege(bool admin, bool privileged, bool multi_links) {
  constexpr const char* kName = "privilege to place probes";
  if (multi_links) return as_privilege(passed(kName, "that to load BPF"));
  if (admin) return as_privilege(passed(kName, "held"));
  if (!privileged) return check_capabilities(kName, "CAP_SYS_ADMIN", false);
  return as_privilege(
      failed(kName, "CAP_SYS_ADMIN is missing, and uprobe_multi links, which do without, fail",
             "run as root or with CAP_SYS_ADMIN, or boot Linux 6.6 or later"));
}

}  // namespace

BpfProbes real_bpf_probes() {
  route_libbpf_messages();
  return {
      .ring_buffer = [] { return libbpf_probe_bpf_map_type(BPF_MAP_TYPE_RINGBUF, nullptr); },
      .loop = [] { return libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_loop, nullptr); },
      .uprobe_multi = [] { return best_uprobe_kind() == UprobeKind::kMultiLink ? 1 : 0; },
  };
}

std::vector<FeatureCheck> check_kernel_features(const std::string& sys_root,
                                                const std::string& proc_root,
                                                const BpfProbes& probes) {
  const std::uint64_t caps = effective_capabilities(proc_root);
  const auto has = [caps](int cap) { return (caps >> cap & 1) != 0; };
  const bool multi_links = probes.uprobe_multi() > 0;
  const bool may_load = has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON));
  return {
      check_kernel_version(proc_root),
      check_capabilities("privilege to load BPF", "CAP_BPF and CAP_PERFMON", may_load),
      check_probe_privilege(has(CAP_SYS_ADMIN), may_load, multi_links),
      check_capabilities("privilege to look into targets", "CAP_SYS_PTRACE", has(CAP_SYS_PTRACE)),
      check_bpf_if(may_load, "BPF ring buffer", "5.8", probes.ring_buffer),
      check_walk(may_load, probes.loop),
      check_uprobe_events(sys_root, may_load, multi_links),
      check_semaphores(sys_root, multi_links),
      check_kernel_types(sys_root),
      check_lockdown(sys_root),
      check_ptrace_scope(proc_root),
  };
}

std::string missing_kernel_features(const std::vector<FeatureCheck>& checks) {
  std::vector<std::string> missing;
  for (const auto& check : checks)
    if (!check.ok && check.required)
      missing.push_back(absl::StrCat(check.name, ": ", check.detail, " (", check.remedy, ")"));
  return absl::StrJoin(missing, "; ");
}

absl::Status kernel_features_status(const std::vector<FeatureCheck>& checks) {
  const std::string missing = missing_kernel_features(checks);
  if (missing.empty()) return absl::OkStatus();
  const bool privilege = std::any_of(checks.begin(), checks.end(), [](const FeatureCheck& check) {
    return !check.ok && check.required && check.privilege;
  });
  if (privilege) return absl::PermissionDeniedError(missing);
  return absl::UnimplementedError(missing);
}

}  // namespace memprofd
