// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/copy_cost.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>
#include <sstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/model/pause_refusal.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::size_t kTestBytes = 16u << 20;
constexpr std::size_t kTestPages = kTestBytes / kPageBytes;
constexpr int kTrials = 3;
// Other load at the wrong moment can make an empty copy seem the longer one, so this is repeated.
constexpr int kTries = 5;
// CPU that a pause takes beyond a fork by the program itself (BENCHMARKS.md). A pause also waits
// once for the borrowed thread to run.
constexpr double kBorrowSeconds = 0.3e-3;
constexpr int kNaps = 8;
constexpr double kNapSeconds = 0.2e-3;

// "Anonymous:          123 kB"
std::optional<std::uint64_t> field_bytes(std::string_view text, std::string_view name) {
  constexpr std::uint64_t kMaxKib = std::uint64_t{1} << 40;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    if (!absl::ConsumePrefix(&line, absl::string_view(name.data(), name.size()))) continue;
    if (!absl::ConsumeSuffix(&line, " kB")) continue;
    std::uint64_t kib = 0;
    if (absl::SimpleAtoi(line, &kib) && kib <= kMaxKib) return kib * 1024;
  }
  return std::nullopt;
}

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// CPU time and wall time of this thread.
struct Spent {
  double cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  double time = seconds_of(CLOCK_MONOTONIC);

  Spent since() const {
    const Spent now;
    return {now.cpu - cpu, now.time - time};
  }
  void operator+=(const Spent& other) {
    cpu += other.cpu;
    time += other.time;
  }
};

pid_t raw_clone() { return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }

// Results that the child hands to its parent in shared memory.
struct Rehearsal {
  double page_cpu[kTrials];  // for all test pages
  double base_cpu[kTrials];
  Spent all{0, 0};
  double waited_seconds = 0;  // total of all naps
};

// Runs in a process of its own. Uses nothing that another thread of memprofd may have locked at the
// fork.
double copy_cpu(Spent& all) {
  const Spent begin;
  const pid_t pid = raw_clone();
  if (pid == 0) ::_exit(0);
  const Spent spent = begin.since();
  if (pid < 0) ::_exit(1);
  ::waitpid(pid, nullptr, 0);
  all += spent;
  return spent.cpu;
}

// Measures the first copy of pages since they were written. Later copies find the pages already
// shared and take a third of the time.
double first_copy_cpu(Spent& all) {
  void* pages =
      ::mmap(nullptr, kTestBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) ::_exit(1);
  ::madvise(pages, kTestBytes, MADV_NOHUGEPAGE);
  const Spent begin;
  for (std::size_t at = 0; at < kTestBytes; at += kPageBytes)
    static_cast<volatile char*>(pages)[at] = 1;
  all += begin.since();
  const double cpu = copy_cpu(all);
  ::munmap(pages, kTestBytes);
  return cpu;
}

double waited_after_nap() {
  const timespec nap{.tv_sec = 0, .tv_nsec = static_cast<long>(kNapSeconds * 1e9)};
  const double begin = seconds_of(CLOCK_MONOTONIC);
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
  return std::max(0.0, seconds_of(CLOCK_MONOTONIC) - begin - kNapSeconds);
}

// Closes its descriptors, because a probe stays until the last descriptor of its link is closed.
[[noreturn]] void rehearse_in_child(Rehearsal& out, int nice) {
  ::syscall(SYS_close_range, 0, ~0u, 0);
  (void)::setpriority(PRIO_PROCESS, 0, nice);
  (void)::prctl(PR_SET_TIMERSLACK, 1);
  for (int i = 0; i < kTrials; ++i) {
    out.base_cpu[i] = copy_cpu(out.all);
    out.page_cpu[i] = first_copy_cpu(out.all) - out.base_cpu[i];
  }
  for (int i = 0; i < kNaps; ++i) out.waited_seconds += waited_after_nap();
  ::_exit(0);
}

double median(double* values) {
  std::sort(values, values + kTrials);
  return values[kTrials / 2];
}

}  // namespace

absl::StatusOr<CopyCost> parse_smaps_rollup(std::string_view text) {
  const auto anonymous = field_bytes(text, "Anonymous:");
  const auto huge = field_bytes(text, "AnonHugePages:");
  if (!anonymous || !huge)
    return absl::DataLossError("smaps_rollup has no line for anonymous pages");
  return CopyCost{.anonymous_bytes = *anonymous, .huge_bytes = std::min(*huge, *anonymous)};
}

absl::StatusOr<CopyCost> predict_copy_cost(int pid, const CopySpeed& speed, const ProcFs& proc) {
  errno = 0;
  std::ifstream file(proc.path(pid, "smaps_rollup"));
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) {
    return process_error(pid, errno != 0 ? errno : ESRCH, "read smaps_rollup");
  }
  ASSIGN_OR_RETURN(CopyCost cost, parse_smaps_rollup(text.str()));
  const std::uint64_t pages = (cost.anonymous_bytes - cost.huge_bytes) / kPageBytes;
  const double cpu = speed.fixed_seconds + static_cast<double>(pages) * speed.page_seconds;
  cost.pause_seconds = cpu * speed.slowdown + speed.wake_seconds;
  return cost;
}

namespace {

// Returns false if the measurement failed.
bool rehearse_once(Rehearsal& out, int nice) {
  errno = 0;
  const pid_t pid = raw_clone();
  if (pid == 0) rehearse_in_child(out, nice);
  int status = 0;
  if (pid <= 0 || ::waitpid(pid, &status, 0) != pid || status != 0) return false;
  return median(out.page_cpu) > 0 && out.all.cpu > 0;
}

CopySpeed speed_of(Rehearsal& done) {
  return {.page_seconds = median(done.page_cpu) / static_cast<double>(kTestPages),
          .fixed_seconds = kBorrowSeconds + median(done.base_cpu),
          .slowdown = std::max(1.0, done.all.time / done.all.cpu),
          .wake_seconds = done.waited_seconds / kNaps};
}

}  // namespace

absl::StatusOr<CopySpeed> rehearse_copy(int pid) {
  errno = 0;
  const int priority = ::getpriority(PRIO_PROCESS, static_cast<id_t>(pid));
  const int nice = errno == 0 ? priority : 0;
  void* shared =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return absl::ResourceExhaustedError("no memory to measure a copy with");
  std::optional<CopySpeed> speed;
  int error = 0;
  for (int i = 0; i < kTries && !speed; ++i) {
    auto* const rehearsal = ::new (shared) Rehearsal{};
    const bool measured = rehearse_once(*rehearsal, nice);
    error = errno;
    if (measured) speed = speed_of(*rehearsal);
  }
  ::munmap(shared, kPageBytes);
  if (speed) return *speed;
  return absl::ResourceExhaustedError(absl::StrCat(
      "cannot predict the pause, because a trial copy failed: ",
      error != 0 ? std::strerror(error) : "it was too fast to measure",
      error == EAGAIN ? "; raise the limit of memprofd's threads (TasksMax=, ulimit -u)"
                      : "; try again"));
}

absl::Status check_pause(int pid, const CopyCost& cost, double max_pause_seconds) {
  if (cost.pause_seconds <= max_pause_seconds) return absl::OkStatus();
  const PauseRefusal refusal{.predicted_seconds = cost.pause_seconds,
                             .allowed_seconds = max_pause_seconds};
  return with_refusal(
      absl::OutOfRangeError(fmt::format(
          "a snapshot would pause pid {} for about {}, and {} are allowed: pass --max-pause {}, or "
          "restart the program with GLIBC_TUNABLES=glibc.malloc.hugetlb=1 ({} of it are in small "
          "pages; huge ones take a tenth of the time)",
          pid, format_duration(cost.pause_seconds), format_duration(max_pause_seconds),
          format_duration_argument(refusal.enough_seconds()),
          format_bytes(static_cast<double>(cost.anonymous_bytes - cost.huge_bytes)))),
      refusal);
}

}  // namespace memprofd
