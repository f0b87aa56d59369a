// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/heap_copy.h"

#include <pthread.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/model/pause_refusal.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr auto kCopyPoll = std::chrono::microseconds(100);
// Delays of the kernel: from the clone to the copy's first stop, and from SIGKILL to its end.
constexpr milliseconds kFirstStopPatience{1000};
constexpr milliseconds kEndPatience{10'000};
constexpr int kSeccompStrict = 1;
constexpr std::size_t kPieceBytes = kMaxMemoryTransfer;
constexpr int kKills = 3;

memprof_state_layout layout_of(const RuntimeAbi& abi) {
  return {.stack = abi.domains ? abi.current_stack : abi.bottom_of_stack,
          .last_return_address = abi.last_return_address,
          .gc_regs = abi.gc_regs,
          .local_roots = abi.local_roots};
}

absl::Status cannot(const Target& target, std::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("no snapshot can be taken of pid ", target.pid, ": ", std::string(why)));
}

// Seccomp filters are checked when a thread is stopped.
absl::Status check_program(const Target& target) {
  ASSIGN_OR_RETURN(const ProcessStatus status, ProcFs().status(target.pid));
  if (status.state == 'T') {
    return cannot(target, "it is stopped (SIGSTOP); resume it (kill -CONT)");
  }
  if (status.seccomp != kSeccompStrict) return absl::OkStatus();
  return cannot(target, "it runs under strict seccomp, which forbids the copy");
}

absl::StatusOr<memprof_snapshot> read_block(const MemoryReader& memory, std::uint64_t address) {
  memprof_snapshot block{};
  RETURN_IF_ERROR(memory.read_value(address, block));
  if (block.magic == MEMPROF_SNAPSHOT_MAGIC && block.abi_version == MEMPROF_SNAPSHOT_ABI &&
      block.bytes == sizeof block) {
    return block;
  }
  return absl::FailedPreconditionError(
      "the agent in the program is of another version of memprofd; restart the program");
}

// The agent's answer: the copy's pid in the program's namespace.
absl::StatusOr<std::int64_t> read_answer(const Target& target, const memprof_snapshot& block) {
  if (block.answered != block.request) return cannot(target, "its agent did not answer");
  if (block.child > 0) return block.child;
  if (block.child == -EBUSY) return cannot(target, "the previous copy has not been cleaned up yet");
  if (block.child == -ETIME) {
    const PauseRefusal refusal{.allowed_seconds = static_cast<double>(block.patience_ns) * 1e-9};
    return with_refusal(
        absl::DeadlineExceededError(absl::StrCat(
            "the domains of pid ", target.pid, " could not be stopped together in ",
            format_duration(refusal.allowed_seconds),
            " (too few processors, or domains that start and end all the time); try again, or "
            "pass --max-pause ",
            format_duration_argument(refusal.enough_seconds()))),
        refusal);
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "pid ", target.pid, " cannot be copied: ", strerror(static_cast<int>(-block.child)),
      "; free memory, or raise its limit of processes"));
}

// True if the tracee is the process that the program knows by this number.
bool is_numbered(pid_t pid, std::int64_t number) {
  const auto status = ProcFs().status(pid);
  return status.ok() && status->tgid == pid && !status->ns_pids.empty() &&
         status->ns_pids.back() == number;
}

absl::Status explain_killed(absl::Status status) {
  if (!absl::IsNotFound(status)) return status;
  return absl::AbortedError(
      "the copy of the program was killed while it was read (out of memory?); try again");
}

// Gives up this thread's real-time priority: no thread of the target is stopped any more.
void end_priority() {
  const sched_param parameters{};
  (void)pthread_setschedparam(pthread_self(), SCHED_OTHER, &parameters);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CopyMemory>> CopyMemory::open(pid_t pid) {
  ASSIGN_OR_RETURN(auto memory, TargetMemory::open_to_view(pid));
  const auto maps = memory->maps();
  if (!maps.ok()) return explain_killed(maps.status());
  std::vector<Range> ranges;
  for (const Mapping& mapping : *maps) {
    if (mapping.inode != 0 || !(mapping.path.empty() || mapping.path == "[heap]")) continue;
    if (ranges.empty() || ranges.back().end != mapping.begin) ranges.push_back({mapping.begin});
    ranges.back().end = mapping.end;
  }
  return std::unique_ptr<CopyMemory>(new CopyMemory(std::move(memory), std::move(ranges)));
}

bool CopyMemory::is_without_files(std::uint64_t address, std::size_t bytes) const {
  const auto after = std::ranges::upper_bound(without_files_, address, {}, &Range::begin);
  if (after == without_files_.begin()) return false;
  const Range& range = *(after - 1);
  return address <= range.end && bytes <= range.end - address;
}

absl::Status CopyMemory::read(std::uint64_t address, std::span<std::byte> out) const {
  std::vector<MemoryPiece> pieces;
  for (std::size_t done = 0; done < out.size() && is_without_files(address, out.size());) {
    const auto piece = out.subspan(done, std::min<std::size_t>(out.size() - done, kPieceBytes));
    pieces.push_back({address + done, piece});
    done += piece.size();
  }
  const auto done = memory_->read_pieces_without_files(pieces);
  if (!pieces.empty() && done.ok() && *done == pieces.size()) return absl::OkStatus();
  return explain_killed(memory_->read(address, out));  // otherwise returns the reason
}

absl::StatusOr<std::size_t> CopyMemory::read_pieces(std::span<const MemoryPiece> pieces) const {
  const bool without_files = std::ranges::all_of(pieces, [this](const MemoryPiece& piece) {
    return is_without_files(piece.address, piece.out.size());
  });
  auto done =
      without_files ? memory_->read_pieces_without_files(pieces) : memory_->read_pieces(pieces);
  if (!done.ok()) return explain_killed(done.status());
  return done;
}

absl::StatusOr<std::span<const std::byte>> CopyMemory::view(std::uint64_t address,
                                                            std::size_t bytes) const {
  if (!is_without_files(address, bytes)) {
    viewed_.resize(bytes);
    RETURN_IF_ERROR(read(address, viewed_));
    return viewed_;
  }
  auto shown = memory_->view(address, bytes);
  if (!shown.ok()) return explain_killed(shown.status());
  return shown;
}

// A stopped tracee keeps its pid until its end. Threads have no pidfd.
CopyProcess::CopyProcess(pid_t pid)
    : pid_(pid), pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}

CopyProcess::~CopyProcess() {
  if (pid_ != 0 && !pidfd_) {
    // The kernel accepts this only from the thread that traces the copy.
    (void)::ptrace(PTRACE_DETACH, pid_, nullptr, nullptr);
    return;
  }
  for (int tries = 0; pid_ != 0 && tries < kKills; ++tries) {
    (void)wait_status(milliseconds(0));  // only our own tracee may be killed
    if (pid_ == 0) break;
    kill();
    if (!wait_status(kEndPatience)) break;
  }
  if (pid_ != 0) log_warning("pid {}: this copy of a program cannot be killed yet", pid_);
}

// Killing another user's process needs CAP_KILL, which memprofd may lack. A tracer needs no
// capability, but before Linux 5.18 it kills only a tracee that is stopped before a signal. A
// process that survives is killed when the tracing thread ends (EXITKILL).
void CopyProcess::kill() const {
  if (::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0) == 0) return;
  (void)::ptrace(PTRACE_INTERRUPT, pid_, nullptr, nullptr);
  (void)::ptrace(PTRACE_KILL, pid_, nullptr, nullptr);
}

std::optional<int> CopyProcess::wait_status(milliseconds patience,
                                            const std::function<void()>& meanwhile) {
  const auto end = Clock::now() + patience;
  do {
    int status = 0;
    const pid_t pid = ::waitpid(pid_, &status, __WALL | __WNOTHREAD | WNOHANG);
    if (pid == pid_ && (WIFEXITED(status) || WIFSIGNALED(status))) pid_ = 0;
    // It disappeared because another thread called exec, so the number may belong to another
    // process.
    if (pid < 0 && errno == ECHILD) pid_ = 0;
    if (pid != 0) return pid > 0 ? std::optional(status) : std::nullopt;
    meanwhile();
    std::this_thread::sleep_for(kCopyPoll);
  } while (Clock::now() < end);
  return std::nullopt;
}

absl::Status CopyProcess::bind() {
  if (!pidfd_) return absl::AbortedError("the copy is not a process; try again");
  if (::ptrace(PTRACE_SETOPTIONS, pid_, nullptr, PTRACE_O_EXITKILL) == 0) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("the copy no longer exists: ", strerror(errno)));
}

absl::Status CopyProcess::run_to_breakpoint(milliseconds patience,
                                            const std::function<void()>& meanwhile) {
  if (::ptrace(PTRACE_CONT, pid_, nullptr, 0) != 0) {
    return absl::AbortedError(absl::StrCat("the copy no longer exists: ", strerror(errno)));
  }
  const auto status = wait_status(patience, meanwhile);
  if (!status) {
    return absl::DeadlineExceededError("the copy did not find all GC roots in time");
  }
  if (WIFSTOPPED(*status) && WSTOPSIG(*status) == SIGTRAP && *status >> 16 == 0) {
    return absl::OkStatus();
  }
  const int signal = WIFSTOPPED(*status)    ? WSTOPSIG(*status)
                     : WIFSIGNALED(*status) ? WTERMSIG(*status)
                                            : 0;
  return absl::AbortedError(
      signal == 0 ? "the copy exited before its roots were found"
                  : absl::StrCat("the copy ended before its roots were found, by signal ", signal));
}

absl::StatusOr<CopyAgent> find_copy_agent(const ElfFile& file, std::uint64_t control_address) {
  static constexpr std::string_view kNames[] = {"memprof_agent_control",
                                                "memprof_snapshot",
                                                "memprof_agent_snapshot",
                                                "memprof_agent_at_point",
                                                "memprof_agent_snapshot_waiting",
                                                "memprof_sample_point",
                                                "memprof_agent_hold"};
  const auto symbols = file.find_symbols(kNames);
  const auto offset = symbols[3] ? file.offset_of(symbols[3]->address) : std::nullopt;
  if (!symbols[0] || !symbols[1] || !symbols[2] || !offset) {
    return absl::FailedPreconditionError(
        "the agent in the program is of a version that takes no snapshots; restart the program");
  }
  const std::uint64_t bias = control_address - symbols[0]->address;
  return CopyAgent{.block = bias + symbols[1]->address,
                   .function = bias + symbols[2]->address,
                   .waiting = symbols[4] ? bias + symbols[4]->address : 0,
                   .point = bias + symbols[3]->address,
                   .point_offset = *offset,
                   .sample_point = symbols[5] && symbols[6] ? bias + symbols[5]->address : 0,
                   .hold = symbols[6] ? bias + symbols[6]->address : 0};
}

absl::Status HeapCopy::prepare(const Target& target, const CopyAgent& agent,
                               std::chrono::nanoseconds patience, bool readable) {
  RETURN_IF_ERROR(check_program(target));
  RETURN_IF_ERROR(read_block(*target.memory, agent.block).status());
  RETURN_IF_ERROR(target.memory->write_value(agent.block + offsetof(memprof_snapshot, layout),
                                             layout_of(target.abi)));
  RETURN_IF_ERROR(target.memory->write_value(agent.block + offsetof(memprof_snapshot, patience_ns),
                                             static_cast<std::uint64_t>(patience.count())));
  return target.memory->write_value(agent.block + offsetof(memprof_snapshot, copy_is_readable),
                                    static_cast<std::uint32_t>(readable));
}

// The copy of a waiting program is consistent if no thread has run since the program was found
// waiting.
absl::Status HeapCopy::call(const Target& target, const CopyAgent& agent, BorrowedThread& thread) {
  ASSIGN_OR_RETURN(const memprof_snapshot block, read_block(*target.memory, agent.block));
  RETURN_IF_ERROR(target.memory->write_value(agent.block + offsetof(memprof_snapshot, request),
                                             block.answered + 1));
  const WaitingProgram* const waiting = thread.program();
  if (waiting == nullptr) return thread.call_agent(agent.function);
  RETURN_IF_ERROR(thread.call_agent(agent.waiting, waiting->states()));
  return waiting->check_still();
}

absl::StatusOr<HeapCopy> HeapCopy::take(const Target& target, const CopyAgent& agent,
                                        BorrowedThread& thread, std::uint64_t stopped_at_ns) {
  const absl::Status called = call(target, agent, thread);
  if (absl::IsDeadlineExceeded(called)) return called;
  const absl::Status released = thread.finish(std::nullopt);
  const std::uint64_t made_at_ns = monotonic_ns();
  end_priority();
  // Any tracee besides the borrowed thread must be the copy.
  const bool is_made = called.ok() || absl::IsUnavailable(called);
  const auto pid = is_made ? thread.wait_child(kFirstStopPatience) : std::nullopt;
  std::optional<CopyProcess> process;
  if (pid) process.emplace(*pid);
  RETURN_IF_ERROR(called);
  RETURN_IF_ERROR(released);
  ASSIGN_OR_RETURN(const memprof_snapshot block, read_block(*target.memory, agent.block));
  const auto number = read_answer(target, block);
  if (block.child == -EBUSY && thread.program() != nullptr) {
    return absl::UnavailableError("an earlier copy of it has not ended yet");
  }
  RETURN_IF_ERROR(number.status());
  if (!process || !is_numbered(*pid, *number)) {
    if (thread.program() != nullptr) return absl::UnavailableError("its copy was made too late");
    return absl::AbortedError(
        absl::StrCat("the copy of pid ", target.pid, " was not found; try again"));
  }
  HeapCopy copy(*std::move(process), target.caml_state_address,
                {.clone_ns = block.clone_ns,
                 .pause_ns = made_at_ns - stopped_at_ns,
                 .made_at_ns = made_at_ns});
  RETURN_IF_ERROR(copy.process_.bind());
  const absl::Status found = copy.find_roots(agent.block, thread);
  if (found.ok()) return copy;
  if (thread.program() != nullptr) thread.mark_unusable();
  return absl::UnavailableError(found.message());
}

absl::Status HeapCopy::find_roots(std::uint64_t address, BorrowedThread& thread) {
  ASSIGN_OR_RETURN(memory_, CopyMemory::open(process_.pid()));
  RETURN_IF_ERROR(
      process_.run_to_breakpoint(kSearchPatience, [&thread] { thread.watch_thread(); }));
  ASSIGN_OR_RETURN(const memprof_snapshot block, read_block(*memory_, address));
  if (block.copy_state != MEMPROF_COPY_ROOTS_FOUND) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the copy found no GC roots (state ", block.copy_state, ")"));
  }
  RETURN_IF_ERROR(read_sections(block));
  return read_domains(block);
}

absl::Status HeapCopy::read_sections(const memprof_snapshot& block) {
  std::vector<memprof_root_section> listed(
      std::min<std::uint32_t>(block.section_count, MEMPROF_MAX_ROOT_SECTIONS));
  RETURN_IF_ERROR(memory_->read(block.sections, std::as_writable_bytes(std::span(listed))));
  std::uint64_t roots = 0;
  for (const memprof_root_section& section : listed) {
    if (section.kind >= MEMPROF_ROOT_KINDS || section.roots > MEMPROF_MAX_ROOTS - roots) {
      return absl::DataLossError("the copy claims more roots than there can be");
    }
    roots += section.roots;
  }
  roots_.resize(roots);
  RETURN_IF_ERROR(memory_->read(block.roots, std::as_writable_bytes(std::span(roots_))));
  std::span<const memprof_root> rest(roots_);
  for (const memprof_root_section& section : listed) {
    sections_.push_back({.kind = static_cast<memprof_root_kind>(section.kind),
                         .domain = section.domain,
                         .roots = rest.first(section.roots)});
    rest = rest.subspan(section.roots);
  }
  std::stable_sort(sections_.begin(), sections_.end(),
                   [](const RootSection& a, const RootSection& b) { return a.kind < b.kind; });
  return absl::OkStatus();
}

absl::Status HeapCopy::read_domains(const memprof_snapshot& block) {
  if (states_[0] != 0) return absl::OkStatus();
  if (block.domain_count == 0 || block.domain_count > MEMPROF_DOMAINS) {
    return absl::DataLossError(
        absl::StrCat("the copy claims to have ", block.domain_count, " domains"));
  }
  states_.resize(block.domain_count);
  return memory_->read(block.domains, std::as_writable_bytes(std::span(states_)));
}

std::uint64_t HeapCopy::roots_of(memprof_root_kind kind) const {
  std::uint64_t roots = 0;
  for (const RootSection& section : sections_) {
    if (section.kind == kind) roots += section.roots.size();
  }
  return roots;
}

}  // namespace memprofd
