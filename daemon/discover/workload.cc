// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/workload.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace memprofd {
namespace {

constexpr std::size_t kIdDigits = 64;
constexpr std::size_t kShownDigits = 12;
constexpr std::streamsize kMaxBytes = 64 << 10;

// The container in a part of a cgroup path: "docker-IDID….scope", "cri-containerd-IDID….scope", or
// the id alone.
std::string container_in(absl::string_view part) {
  (void)absl::ConsumeSuffix(&part, ".scope");
  part.remove_prefix(std::min(part.size(), part.rfind('-') + 1));
  const bool is_id =
      part.size() == kIdDigits && std::all_of(part.begin(), part.end(), absl::ascii_isxdigit);
  return is_id ? std::string(part.substr(0, kShownDigits)) : "";
}

}  // namespace

Workload parse_workload(std::string_view cgroups) {
  Workload found;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(cgroups.data(), cgroups.size()), '\n')) {
    const std::pair<absl::string_view, absl::string_view> path =
        absl::StrSplit(line, absl::MaxSplits(":/", 1));
    for (const absl::string_view part : absl::StrSplit(path.second, '/')) {
      if (absl::EndsWith(part, ".service")) found.unit = std::string(part);
      if (std::string container = container_in(part); !container.empty()) {
        found.container = std::move(container);
      }
    }
  }
  return found;
}

Workload workload_of(const ProcFs& proc, int pid) {
  std::ifstream file(proc.path(pid, "cgroup"));
  std::string text(kMaxBytes, '\0');
  file.read(text.data(), kMaxBytes);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_workload(text);
}

}  // namespace memprofd
