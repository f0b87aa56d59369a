// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/proc_fs.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/capability.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>
#include <optional>

#include "absl/strings/numbers.h"
#include "daemon/util/fd.h"
#include "daemon/util/open_files.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

// A maps file of a big process has some 10,000 lines of 100 bytes.
constexpr std::size_t kMaxProcFileBytes = 64u << 20;
constexpr std::size_t kMaxTasks = 1u << 20;

constexpr std::string_view kBlanks = " \t\n";

std::string_view skip_blanks(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kBlanks), text.size()));
}

// Removes the next word from the front of text and returns it; empty at the end.
std::string_view take_word(std::string_view& text) {
  text = skip_blanks(text);
  const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(word.size());
  return word;
}

// Removes the first line from the front of text and returns it.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

// Appends the whole file; returns 0 or an errno.
int read_all(int fd, std::string& out) {
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return 0;
    if (out.size() + static_cast<std::size_t>(n) > kMaxProcFileBytes) return EFBIG;
    out.append(buffer, static_cast<std::size_t>(n));
  }
}

// Parses two numbers with a separator: "begin-end".
bool parse_range(std::string_view text, char separator, int base, std::uint64_t& first,
                 std::uint64_t& second) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) return false;
  const auto a = parse_number<std::uint64_t>(text.substr(0, at), base);
  const auto b = parse_number<std::uint64_t>(text.substr(at + 1), base);
  if (!a || !b) return false;
  first = *a;
  second = *b;
  return true;
}

std::optional<Mapping> parse_mapping(std::string_view line) {
  Mapping mapping;
  const std::string_view range = take_word(line);
  const std::string_view perms = take_word(line);
  const auto offset = parse_number<std::uint64_t>(take_word(line), 16);
  const std::string_view device = take_word(line);
  const auto inode = parse_number<std::uint64_t>(take_word(line));
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
  if (!parse_range(range, '-', 16, mapping.begin, mapping.end) || perms.size() < 4 || !offset ||
      !inode || !parse_range(device, ':', 16, major, minor) || mapping.end <= mapping.begin) {
    return std::nullopt;
  }
  mapping.readable = perms[0] == 'r';
  mapping.writable = perms[1] == 'w';
  mapping.executable = perms[2] == 'x';
  mapping.offset = *offset;
  mapping.device = makedev(static_cast<unsigned>(major), static_cast<unsigned>(minor));
  mapping.inode = *inode;
  mapping.path = std::string(skip_blanks(line));
  // The kernel writes a newline in a name as \012.
  for (std::size_t at = 0; (at = mapping.path.find("\\012", at)) != std::string::npos; ++at) {
    mapping.path.replace(at, 4, "\n");
  }
  return mapping;
}

// Parses the real, effective and saved id. A missing one becomes kNobody.
template <typename Id>
void parse_ids(std::string_view text, std::array<Id, 3>& ids) {
  for (Id& id : ids) id = parse_number<Id>(take_word(text)).value_or(static_cast<Id>(-1));
}

void parse_status_field(std::string_view key, std::string_view value, ProcessStatus& status) {
  std::string_view rest = value;
  const std::string_view first = take_word(rest);
  const auto number = [&](int& out) { out = parse_number<int>(first).value_or(0); };
  const auto mask = [&](std::uint64_t& out) {
    out = parse_number<std::uint64_t>(first, 16).value_or(0);
  };
  if (key == "State" && !first.empty()) status.state = first.front();
  if (key == "Tgid") number(status.tgid);
  if (key == "TracerPid") number(status.tracer_pid);
  if (key == "Threads") number(status.threads);
  if (key == "Seccomp") number(status.seccomp);
  if (key == "Seccomp_filters") number(status.seccomp_filters);
  if (key == "CapEff") mask(status.capabilities);
  if (key == "CapPrm") mask(status.permitted_capabilities);
  if (key == "VmSize") status.has_memory = true;
  if (key == "Uid") parse_ids(value, status.uids);
  if (key == "Gid") parse_ids(value, status.gids);
  if (key == "x86_Thread_features") status.shadow_stack = value.find("shstk") != value.npos;
  if (key == "SigBlk") mask(status.signals_blocked);
  if (key == "SigIgn") mask(status.signals_ignored);
  if (key == "SigCgt") mask(status.signals_caught);
  if (key == "voluntary_ctxt_switches" || key == "nonvoluntary_ctxt_switches") {
    status.switches += parse_number<std::uint64_t>(first).value_or(0);
  }
  if (key != "NSpid") return;
  for (std::string_view word = take_word(value); !word.empty(); word = take_word(value)) {
    if (const auto pid = parse_number<int>(word)) status.ns_pids.push_back(*pid);
  }
}

// True if this process has the capabilities for programs of all users.
bool is_privileged() {
  constexpr std::uint64_t kNeeded = 1u << CAP_SYS_PTRACE | 1u << CAP_DAC_OVERRIDE;
  const auto status = ProcFs().status(::getpid());
  return status.ok() && (status->capabilities & kNeeded) == kNeeded;
}

}  // namespace

absl::Status process_error(int pid, int error, std::string_view action) {
  if (error == ESRCH || error == ENOENT) {
    return absl::NotFoundError(fmt::format("no process with pid {}", pid));
  }
  if (error == EPERM || error == EACCES) {
    return absl::PermissionDeniedError(fmt::format(
        "not allowed to {} of pid {}: {}", action, pid,
        is_privileged() ? "its user namespace or a security module protects it even from root; run "
                          "memprofd outside of containers"
                        : "run memprofd as root or give it CAP_SYS_PTRACE and CAP_DAC_OVERRIDE"));
  }
  return file_error(error, fmt::format("cannot {} of pid {}", action, pid));
}

absl::StatusOr<ProcessStatus> parse_status(std::string_view text) {
  ProcessStatus status;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    parse_status_field(line.substr(0, colon), line.substr(colon + 1), status);
  }
  if (status.state == '?') return absl::DataLossError("status without a State line");
  return status;
}

// The text is "NUMBER 0xARGUMENT... 0xSP 0xPC" in a system call, "-1 0xSP 0xPC" in other sleeps, or
// "running".
std::optional<SleepingCall> parse_sleeping_call(std::string_view text) {
  SleepingCall call;
  const auto number = parse_number<long>(take_word(text));
  if (!number || *number < 0) return std::nullopt;
  call.number = *number;
  const auto next = [&text](std::uint64_t& out) {
    const std::string_view word = take_word(text);
    if (!word.starts_with("0x")) return false;
    const auto value = parse_number<std::uint64_t>(word.substr(2), 16);
    out = value.value_or(0);
    return value.has_value();
  };
  const bool is_whole = std::ranges::all_of(call.arguments, next) && next(call.stack_pointer) &&
                        next(call.program_counter);
  return is_whole ? std::optional(call) : std::nullopt;
}

std::optional<double> parse_last_run(std::string_view sched) {
  while (!sched.empty()) {
    std::string_view line = take_line(sched);
    if (!line.starts_with("se.exec_start")) continue;
    line.remove_prefix(std::min(line.find(':') + 1, line.size()));
    const std::string_view word = take_word(line);
    double ms = 0;
    return absl::SimpleAtod({word.data(), word.size()}, &ms) ? std::optional(ms) : std::nullopt;
  }
  return std::nullopt;
}

// The comm in field 2 may contain blanks and ')', so the other fields start after the last ')'.
absl::StatusOr<std::uint64_t> parse_stat_field(std::string_view stat, int wanted) {
  constexpr int kFirstFieldAfterComm = 3;
  const std::size_t comm_end = stat.rfind(')');
  if (comm_end == std::string_view::npos) return absl::DataLossError("stat without a comm");
  std::string_view rest = stat.substr(comm_end + 1);
  std::string_view word;
  for (int field = kFirstFieldAfterComm; field <= wanted; ++field) word = take_word(rest);
  const auto number = parse_number<std::uint64_t>(word);
  if (!number) return absl::DataLossError(fmt::format("stat without field {}", wanted));
  return *number;
}

std::vector<Mapping> parse_maps(std::string_view text) {
  std::vector<Mapping> mappings;
  while (!text.empty()) {
    if (auto mapping = parse_mapping(take_line(text))) mappings.push_back(std::move(*mapping));
  }
  return mappings;
}

std::string variable_of(std::string_view environment, std::string_view name) {
  // Prepends a NUL, so that every variable follows one.
  const std::string all = fmt::format("{}{}", '\0', environment);
  const std::string key = fmt::format("{}{}=", '\0', name);
  const std::size_t at = all.find(key);
  if (at == std::string::npos) return "";
  return all.substr(at + key.size(), all.find('\0', at + 1) - at - key.size());
}

std::string ProcFs::path(int pid, std::string_view name) const {
  return fmt::format("{}/{}/{}", root_, pid, name);
}

absl::StatusOr<std::string> ProcFs::read_file(int pid, std::string_view name) const {
  std::string text;
  UniqueFd fd(::open(path(pid, name).c_str(), O_RDONLY | O_CLOEXEC));
  const int error = fd ? read_all(fd.get(), text) : errno;
  if (error != 0) return process_error(pid, error, fmt::format("read {}", name));
  return text;
}

absl::StatusOr<ProcessStatus> ProcFs::status(int pid) const {
  auto text = read_file(pid, "status");
  if (!text.ok()) return text.status();
  return parse_status(*text);
}

absl::StatusOr<ProcessStatus> ProcFs::status_of_self() const {
  std::string text;
  UniqueFd fd(::open((root_ + "/self/status").c_str(), O_RDONLY | O_CLOEXEC));
  const int error = fd ? read_all(fd.get(), text) : errno;
  if (error != 0) return absl::ErrnoToStatus(error, "read /proc/self/status");
  return parse_status(text);
}

std::uint64_t ProcFs::max_mappings() const {
  std::uint64_t most = 0;
  std::ifstream(root_ + "/sys/vm/max_map_count") >> most;
  return most;
}

bool ProcFs::exists(int pid) const {
  const auto found = status(pid);
  return found.ok() ? !found->has_ended() : !absl::IsNotFound(found.status());
}

absl::StatusOr<ProcessStatus> ProcFs::thread_status(int pid, int tid) const {
  auto text = read_file(pid, fmt::format("task/{}/status", tid));
  if (!text.ok()) return text.status();
  return parse_status(*text);
}

absl::StatusOr<std::optional<SleepingCall>> ProcFs::sleeping_call(int pid, int tid) const {
  auto text = read_file(pid, fmt::format("task/{}/syscall", tid));
  if (!text.ok()) return text.status();
  return parse_sleeping_call(*text);
}

absl::StatusOr<double> ProcFs::last_run_ms(int pid, int tid) const {
  auto text = read_file(pid, fmt::format("task/{}/sched", tid));
  const bool has_no_file = absl::IsNotFound(text.status()) && exists(tid);
  if (!text.ok() && !has_no_file) return text.status();
  const auto ms = has_no_file ? std::nullopt : parse_last_run(*text);
  if (ms) return *ms;
  return absl::FailedPreconditionError("this kernel does not report how long a thread sleeps");
}

absl::StatusOr<std::uint64_t> ProcFs::last_processor(int pid, int tid) const {
  auto text = read_file(pid, fmt::format("task/{}/stat", tid));
  if (!text.ok()) return text.status();
  return parse_stat_field(*text, 39);
}

absl::StatusOr<int> ProcFs::parent(int pid) const {
  auto text = read_file(pid, "stat");
  if (!text.ok()) return text.status();
  const auto parent = parse_stat_field(*text, 4);
  if (!parent.ok()) return parent.status();
  return static_cast<int>(*parent);
}

absl::StatusOr<std::uint64_t> ProcFs::start_time(int pid) const {
  auto text = read_file(pid, "stat");
  if (!text.ok()) return text.status();
  return parse_stat_field(*text, 22);
}

absl::StatusOr<std::pair<std::uint64_t, std::uint64_t>> ProcFs::environment_range(int pid) const {
  auto text = read_file(pid, "stat");
  if (!text.ok()) return text.status();
  const auto begin = parse_stat_field(*text, 50), end = parse_stat_field(*text, 51);
  if (!begin.ok() || !end.ok()) return absl::DataLossError("stat without an environment");
  return std::pair(*begin, *end);
}

absl::StatusOr<std::string> ProcFs::comm(int pid) const {
  auto text = read_file(pid, "comm");
  if (!text.ok()) return text.status();
  if (text->ends_with('\n')) text->pop_back();
  return text;
}

absl::StatusOr<std::string> ProcFs::exe(int pid) const {
  std::string target(4096, '\0');
  const ssize_t n = ::readlink(path(pid, "exe").c_str(), target.data(), target.size());
  if (n >= 0) {
    target.resize(static_cast<std::size_t>(n));
    return target;
  }
  const int error = errno;
  const bool process_exists = ::access(path(pid, "status").c_str(), F_OK) == 0;
  if (error == ENOENT && process_exists) {
    return absl::FailedPreconditionError(fmt::format("pid {} runs no program file", pid));
  }
  return process_error(pid, error, "read the program");
}

absl::StatusOr<std::vector<Mapping>> ProcFs::maps(int pid) const {
  auto text = read_file(pid, "maps");
  if (!text.ok()) return text.status();
  return parse_maps(*text);
}

absl::StatusOr<std::vector<int>> ProcFs::tasks(int pid) const {
  struct CloseDir {
    void operator()(DIR* dir) const { ::closedir(dir); }
  };
  std::unique_ptr<DIR, CloseDir> dir(::opendir(path(pid, "task").c_str()));
  if (dir == nullptr) return process_error(pid, errno, "list the threads");
  std::vector<int> tids;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (tids.size() >= kMaxTasks) break;
    if (const auto tid = parse_number<int>(entry->d_name)) tids.push_back(*tid);
  }
  if (tids.empty()) return process_error(pid, ESRCH, "list the threads");
  std::sort(tids.begin(), tids.end());
  return tids;
}

bool ProcFs::has_other_clock(int pid) const {
  // "monotonic  -1500  0"; empty before Linux 5.6.
  const auto offset_in = [](const std::string& file) {
    std::string line;
    std::ifstream lines(file);
    while (std::getline(lines, line) && !line.starts_with("monotonic")) {
    }
    return line;
  };
  const std::string own = offset_in("/proc/self/timens_offsets");
  const std::string other = offset_in(path(pid, "timens_offsets"));
  return !own.empty() && !other.empty() && own != other;
}

}  // namespace memprofd
