// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/copy_cost.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::size_t kTestBytes = 64u << 20;
constexpr std::size_t kTestPages = kTestBytes / kPageBytes;
constexpr int kTestCopies = 5;
// A machine that is busy at the wrong moment makes a copy of nothing seem the longer one.
constexpr int kTries = 5;

// "Anonymous:          123 kB"
std::optional<std::uint64_t> field_bytes(std::string_view text, std::string_view name) {
  constexpr std::uint64_t kMostKib = std::uint64_t{1} << 40;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    if (!absl::ConsumePrefix(&line, absl::string_view(name.data(), name.size()))) continue;
    if (!absl::ConsumeSuffix(&line, " kB")) continue;
    std::uint64_t kib = 0;
    if (absl::SimpleAtoi(line, &kib) && kib <= kMostKib) return kib * 1024;
  }
  return std::nullopt;
}

double now_seconds() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

pid_t raw_clone() { return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }

// In a process of its own: the time for the pages of one mapping. Uses nothing that another thread
// of memprofd may have locked when it was copied.
double fastest_copy() {
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTestCopies; ++i) {
    const double begin = now_seconds();
    const pid_t pid = raw_clone();
    if (pid == 0) ::_exit(0);
    if (pid < 0) return 0;
    fastest = std::min(fastest, now_seconds() - begin);
    ::waitpid(pid, nullptr, 0);
  }
  return fastest;
}

// A probe is in until the last descriptor of its link is closed, so it keeps none.
[[noreturn]] void measure_in_child(double* without_and_with) {
  ::syscall(SYS_close_range, 0, ~0u, 0);
  without_and_with[0] = fastest_copy();
  void* pages =
      ::mmap(nullptr, kTestBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) ::_exit(1);
  ::madvise(pages, kTestBytes, MADV_NOHUGEPAGE);
  for (std::size_t at = 0; at < kTestBytes; at += kPageBytes)
    static_cast<volatile char*>(pages)[at] = 1;
  without_and_with[1] = fastest_copy();
  ::_exit(0);
}

}  // namespace

absl::StatusOr<CopyCost> parse_smaps_rollup(std::string_view text) {
  const auto anonymous = field_bytes(text, "Anonymous:");
  const auto huge = field_bytes(text, "AnonHugePages:");
  if (!anonymous || !huge)
    return absl::DataLossError("smaps_rollup has no line for anonymous pages");
  return CopyCost{.anonymous_bytes = *anonymous, .huge_bytes = std::min(*huge, *anonymous)};
}

absl::StatusOr<CopyCost> predict_copy_cost(int pid, double seconds_per_page, const ProcFs& proc) {
  errno = 0;
  std::ifstream file(proc.path(pid, "smaps_rollup"));
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) {
    return process_error(pid, errno != 0 ? errno : ESRCH, "read smaps_rollup");
  }
  ASSIGN_OR_RETURN(CopyCost cost, parse_smaps_rollup(text.str()));
  const std::uint64_t pages = (cost.anonymous_bytes - cost.huge_bytes) / kPageBytes;
  cost.pause_seconds = static_cast<double>(pages) * seconds_per_page;
  return cost;
}

namespace {

// Seconds that the test's pages took; not above 0: could not be measured.
double try_to_measure(double* times) {
  errno = 0;
  const pid_t pid = raw_clone();
  if (pid == 0) measure_in_child(times);
  int status = 0;
  const bool done = pid > 0 && ::waitpid(pid, &status, 0) == pid && status == 0;
  return done ? times[1] - times[0] : 0;
}

}  // namespace

absl::StatusOr<double> measure_seconds_per_page() {
  void* shared =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return absl::ResourceExhaustedError("no memory to measure a copy with");
  double seconds = 0;
  for (int i = 0; i < kTries && !(seconds > 0); ++i) {
    seconds = try_to_measure(static_cast<double*>(shared));
  }
  const int error = errno;
  ::munmap(shared, kPageBytes);
  if (!(seconds > 0)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "memprofd could not measure the copy of a process of its own: ",
        error != 0 ? std::strerror(error) : "it took no measurable time",
        error == EAGAIN ? "; raise the limit of memprofd's threads (TasksMax=, ulimit -u)"
                        : "; ask again later"));
  }
  return seconds / static_cast<double>(kTestPages);
}

absl::Status check_pause(int pid, const CopyCost& cost, double max_pause_seconds) {
  if (cost.pause_seconds <= max_pause_seconds) return absl::OkStatus();
  return absl::OutOfRangeError(fmt::format(
      "a snapshot would pause pid {} for {} at least, longer on a busy machine; {} are allowed: "
      "pass a larger --max-pause, or start it with GLIBC_TUNABLES=glibc.malloc.hugetlb=1 ({} of it "
      "are in small pages; huge ones take a tenth of the time)",
      pid, format_duration(cost.pause_seconds), format_duration(max_pause_seconds),
      format_bytes(static_cast<double>(cost.anonymous_bytes - cost.huge_bytes))));
}

}  // namespace memprofd
