// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/memory_status.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <string>

#include "daemon/discover/proc_fs.h"
#include "daemon/util/fd.h"

namespace memprofd {
namespace {

constexpr std::size_t kMaxStatusBytes = 64 << 10;
constexpr std::uint64_t kMaxKilobytes = std::uint64_t{1} << 50;

struct Field {
  std::string_view key;
  std::uint64_t MemoryStatus::*bytes;
};
constexpr Field kFields[] = {
    {"RssAnon", &MemoryStatus::anonymous}, {"RssFile", &MemoryStatus::files},
    {"RssShmem", &MemoryStatus::shared},   {"VmSwap", &MemoryStatus::swapped},
    {"VmPTE", &MemoryStatus::page_tables}, {"HugetlbPages", &MemoryStatus::huge_pages},
};

// The number at the start, after blanks.
std::optional<std::uint64_t> number_in(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data() || value > kMaxKilobytes) return std::nullopt;
  return value;
}

}  // namespace

absl::StatusOr<MemoryStatus> parse_memory_status(std::string_view text) {
  MemoryStatus status;
  bool resident = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const auto number = number_in(line.substr(colon + 1));
    if (!number) continue;
    const std::string_view key = line.substr(0, colon);
    if (key == "Threads")
      status.threads = static_cast<int>(std::min<std::uint64_t>(*number, 1 << 22));
    for (const Field& field : kFields) {
      if (key == field.key) status.*field.bytes = *number * 1024;
    }
    resident |= key == "RssAnon";
  }
  if (!resident)
    return absl::DataLossError("it has no memory: it has ended, or is a kernel thread");
  return status;
}

absl::StatusOr<MemoryStatus> read_memory_status(int pid) {
  const UniqueFd file(::open(ProcFs().path(pid, "status").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return process_error(pid, errno, "read status");
  std::string text(kMaxStatusBytes, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) return process_error(pid, errno, "read status");
  text.resize(static_cast<std::size_t>(got));
  auto status = parse_memory_status(text);
  if (status.ok()) return status;
  return absl::NotFoundError(
      fmt::format("pid {}: {}", pid, std::string(status.status().message())));
}

}  // namespace memprofd
