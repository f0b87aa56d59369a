// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/copy_room.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

// The copy's page tables take 8 bytes per 4 KiB.
constexpr std::uint64_t kBytesForAnEntry = 512;

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// Returns nothing for "max", which means no limit.
std::optional<std::uint64_t> number_in(const std::string& path) {
  std::uint64_t number = 0;
  if (!absl::SimpleAtoi(contents(path), &number)) return std::nullopt;
  return number;
}

// The number after a name, in text with one such pair per line.
std::optional<std::uint64_t> field(const std::string& text, std::string_view name) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    std::uint64_t number = 0;
    if (words.size() >= 2 && words[0] == name && absl::SimpleAtoi(words[1], &number)) return number;
  }
  return std::nullopt;
}

// One version of cgroups: the folder and the names of its files.
struct GroupFiles {
  std::string root;
  const char* limit;
  const char* usage;
  const char* unused;  // field of memory.stat
};

// A cgroup that limits the program, and the files of its version.
struct Group {
  std::string path;  // "/shop/api", or a group above it
  GroupFiles files;
};

// A line of /proc/PID/cgroup has number, controllers and path.
std::optional<Group> group_of(std::string_view line, const std::string& root) {
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(line.data(), line.size()), absl::MaxSplits(':', 2));
  if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') return std::nullopt;
  if (parts[2].find("..") != std::string::npos) return std::nullopt;
  if (parts[0] == "0" && parts[1].empty()) {
    return Group{parts[2], {root, "memory.max", "memory.current", "inactive_file"}};
  }
  const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
  if (std::find(controllers.begin(), controllers.end(), "memory") == controllers.end()) {
    return std::nullopt;
  }
  return Group{
      parts[2],
      {root + "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}};
}

// Returns nothing if the group has no limit.
std::optional<std::uint64_t> room_in(const Group& group) {
  const std::string folder = group.files.root + group.path + "/";
  const auto limit = number_in(folder + group.files.limit);
  const auto usage = number_in(folder + group.files.usage);
  if (!limit || !usage) return std::nullopt;
  const std::uint64_t unused =
      field(contents(folder + "memory.stat"), group.files.unused).value_or(0);
  const std::uint64_t used = *usage - std::min(*usage, unused);
  return *limit - std::min(*limit, used);
}

absl::Status no_room(int pid, std::uint64_t needed, const std::string& where, std::uint64_t room,
                     std::string_view remedy) {
  return absl::ResourceExhaustedError(
      fmt::format("a snapshot of pid {} may need {} of memory for pages that the program writes "
                  "meanwhile, but {} has room for {}: {}",
                  pid, format_bytes(static_cast<double>(needed)), where,
                  format_bytes(static_cast<double>(room)), remedy));
}

absl::Status check_group(int pid, std::uint64_t needed, Group group) {
  for (;;) {
    if (const auto room = room_in(group); room && *room < needed) {
      return no_room(pid, needed, "its cgroup " + group.path, *room,
                     "raise its memory limit, or try when the program is smaller");
    }
    if (group.path.size() <= 1) return absl::OkStatus();
    group.path.resize(std::max<std::size_t>(group.path.find_last_of('/'), 1));
  }
}

}  // namespace

absl::Status check_room(int pid, const CopyCost& cost, const MemoryRoots& roots) {
  const std::uint64_t needed = cost.anonymous_bytes + cost.anonymous_bytes / kBytesForAnEntry;
  const auto available = field(contents(roots.proc + "/meminfo"), "MemAvailable:");
  if (available && *available * 1024 < needed) {
    return no_room(pid, needed, "the machine", *available * 1024,
                   "end other programs, or try when the program is smaller");
  }
  const std::string groups = contents(fmt::format("{}/{}/cgroup", roots.proc, pid));
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(groups, '\n'))) {
    if (auto group = group_of(line, roots.cgroup)) {
      RETURN_IF_ERROR(check_group(pid, needed, *std::move(group)));
    }
  }
  return absl::OkStatus();
}

}  // namespace memprofd
