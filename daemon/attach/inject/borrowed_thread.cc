// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/borrowed_thread.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/agent_memfd.h"
#include "daemon/discover/agent_names.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/threads/start_thread.h"

namespace memprofd {
namespace {

// dlopen takes half a millisecond; longer means a slow disk or a held lock.
constexpr std::chrono::milliseconds kLoadPatience{2000};
// The agent waits for up to 3 s until all domains have stopped.
constexpr std::chrono::milliseconds kAgentPatience{5000};
// Limit for a system call that waits for no lock.
constexpr std::chrono::milliseconds kCallPatience{1000};
// Limits for the thread to stop (the kernel's delay) and then to sleep again.
constexpr std::chrono::milliseconds kStopPatience{1000};
constexpr std::chrono::milliseconds kSleepPatience{200};
constexpr std::chrono::milliseconds kWatchInterval{1};
constexpr std::uint64_t kAllSignals = ~0ULL;

}  // namespace

BorrowedThread::BorrowedThread(const Target& target, const LibcFunctions& libc,
                               PtraceSession& session, pid_t tid, ThreadState state)
    : target_(target), libc_(libc), session_(session), tid_(tid), state_(std::move(state)) {
  save_errno();
}

BorrowedThread::BorrowedThread(const Target& target, const LibcFunctions& libc,
                               PtraceSession& session, const WaitingProgram& program,
                               const InterruptedCall& waits, ThreadState state)
    : target_(target),
      libc_(libc),
      session_(session),
      tid_(program.tid()),
      program_(&program),
      waits_(waits),
      state_(std::move(state)) {
  state_.regs = waits_->restarted();
  save_errno();
}

absl::Status BorrowedThread::load(const std::string& path) {
  return call({libc_.dlopen, kTextArgument, RTLD_NOW}, path, absl::StrCat("loading ", path),
              kLoadPatience);
}

absl::StatusOr<BorrowedThread::Copy> BorrowedThread::load_copy(std::span<const std::byte> contents,
                                                               std::size_t agents) {
  ASSIGN_OR_RETURN(
      const std::int64_t fd,
      call_system({libc_.syscall, SYS_memfd_create, kTextArgument, MFD_CLOEXEC | MFD_ALLOW_SEALING},
                  std::string(kAgentMemfdName)));
  if (fd < 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "pid ", target_.pid,
        " cannot create a file in memory for the agent: ", strerror(static_cast<int>(-fd)),
        fd == -EMFILE ? "; raise its limit of open files (prlimit --nofile, ulimit -n)" : ""));
  }
  const int number = static_cast<int>(fd);
  ASSIGN_OR_RETURN(UniqueFd taken, take_descriptor(tid_, target_.pidfd.get(), number));
  const Copy copy{std::make_shared<const UniqueFd>(std::move(taken)),
                  name_beside(absl::StrCat("/proc/thread-self/fd/", number), agents), number};
  absl::Status loaded = check_fresh_memfd(copy.file->get());
  if (loaded.ok()) loaded = fill_memfd(copy.file->get(), contents);
  if (loaded.ok()) loaded = load(copy.name);
  if (loaded.ok()) return copy;
  if (session_.gone() || absl::IsDeadlineExceeded(loaded)) return loaded;
  if (const auto close = close_call(copy)) (void)call_system(*close, "");
  return loaded;
}

std::optional<RemoteCall> BorrowedThread::close_call(const Copy& copy) const {
  const auto now = take_descriptor(tid_, target_.pidfd.get(), copy.number);
  if (!now.ok() || !same_file(now->get(), copy.file->get())) return std::nullopt;
  return RemoteCall{libc_.syscall, SYS_close, static_cast<std::uint64_t>(copy.number)};
}

absl::Status BorrowedThread::call_agent(std::uint64_t function) {
  session_.expect_child();
  return agent_called(call({function}, "", "a call of the agent", kAgentPatience));
}

absl::Status BorrowedThread::call_agent(std::uint64_t function,
                                        std::span<const std::uint64_t> words) {
  session_.expect_child();
  const auto bytes = std::as_bytes(words);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return agent_called(
      call({function, kTextArgument, words.size()}, text, "a call of the agent", kAgentPatience));
}

absl::Status BorrowedThread::agent_called(absl::Status called) const {
  if (!absl::IsDeadlineExceeded(called)) return called;
  return absl::DeadlineExceededError(
      absl::StrCat("the agent in pid ", target_.pid, " does not answer in ",
                   kAgentPatience.count() / 1000, " s; the program continues, try again"));
}

absl::Status BorrowedThread::finish(std::optional<RemoteCall> call) {
  if (waits_) {
    if (call && frame_.frame2 != 0) (void)call_system(*call, "");
    restore_errno();
    return continue_waiting();
  }
  restore_errno();
  if (call) {
    // The return address of the last call must also lead into the program.
    if (frame_.frame2 == 0) RETURN_IF_ERROR(put_frame(*call, std::nullopt, ""));
    RETURN_IF_ERROR(session_.set_registers(registers_for_call(state_.regs, *call, frame_.frame2)));
  }
  return session_.release();
}

// The image lies below everything on the thread's stack: until its registers are set, nothing has
// changed for the thread.
absl::Status BorrowedThread::put_frame(RemoteCall function, std::optional<RemoteCall> second,
                                       const std::string& text) {
  frame_ = build_remote_frame(state_, libc_.restorer, function, second, text);
  return session_.write_stack(frame_.base, frame_.bytes);
}

// Makes the thread call a function, and waits for its next stop, which is in raise.
absl::Status BorrowedThread::call(RemoteCall function, const std::string& text,
                                  std::string_view action, std::chrono::milliseconds patience) {
  if (waits_) {
    RETURN_IF_ERROR(put_call_of_waiting(function, text));
    const absl::Status returned = return_from_call(patience);
    return absl::IsNotFound(returned) || absl::IsDeadlineExceeded(returned) ? not_done(action)
                                                                            : returned;
  }
  RETURN_IF_ERROR(put_frame(function, RemoteCall{libc_.raise, kSignal}, text));
  RETURN_IF_ERROR(session_.set_registers(frame_.regs));
  RETURN_IF_ERROR(session_.resume(0));
  const auto stop = session_.wait_signal(
      [this](const SignalStop& signal) { return is_our_raise(signal); }, patience);
  if (!stop) return not_done(action);
  ASSIGN_OR_RETURN(state_, session_.state());
  return absl::OkStatus();
}

// Makes the thread execute a system call, and leaves it stopped after the instruction.
absl::StatusOr<std::int64_t> BorrowedThread::call_system(RemoteCall call, const std::string& text) {
  if (waits_) {
    RETURN_IF_ERROR(put_call_of_waiting(call, text));
  } else {
    RETURN_IF_ERROR(put_frame(call, std::nullopt, text));
    RETURN_IF_ERROR(session_.set_registers(frame_.regs));
  }
  const std::uint64_t first =
      call.argument2 == kTextArgument ? frame_.text_address : call.argument2;
  const auto result = session_.run_to_system_call(call.argument1, first, kCallPatience);
  if (!result.ok()) return not_done("loading the agent");
  if (waits_) {
    if (!return_from_call(kCallPatience).ok()) return not_done("loading the agent");
  } else {
    ASSIGN_OR_RETURN(state_, session_.state());
  }
  return *result;
}

// The previous image is left first: if we were killed while the next one is written over it, the
// call would restart. Signals are blocked last, because the image undoes that.
absl::Status BorrowedThread::put_call_of_waiting(RemoteCall function, const std::string& text) {
  if (frame_.frame2 != 0) {
    RETURN_IF_ERROR(session_.set_signal_mask(state_.signal_mask));
    RETURN_IF_ERROR(session_.set_registers(state_.regs));
  }
  RETURN_IF_ERROR(put_frame(function, std::nullopt, text));
  RETURN_IF_ERROR(session_.set_registers(frame_.regs));
  return session_.set_signal_mask(kAllSignals);
}

// Waits for the thread to enter rt_sigreturn after the call has returned.
absl::Status BorrowedThread::return_from_call(std::chrono::milliseconds patience) {
  return session_.run_to_return(frame_.frame2 + sizeof(std::uint64_t), patience);
}

// First sets the registers that restart the call, whatever happens to memprofd. At the stop that
// follows, sets those with which the kernel resumes it.
absl::Status BorrowedThread::continue_waiting() {
  if (frame_.frame2 != 0) {
    RETURN_IF_ERROR(session_.set_signal_mask(state_.signal_mask));
    RETURN_IF_ERROR(session_.set_registers(state_.regs));
    RETURN_IF_ERROR(session_.interrupt(true, kStopPatience));
  }
  const ProcFs proc;
  session_.continue_waiting(
      waits_->resumed(), waits_->instruction(),
      [&] {
        const auto call = proc.sleeping_call(target_.pid, tid_);
        return call.ok() && call->has_value();
      },
      kSleepPatience);
  return absl::OkStatus();
}

void BorrowedThread::watch_thread() {
  if (waits_) session_.watch_thread(target_.pid);
}

void BorrowedThread::watch_while(const std::function<void()>& work) {
  std::atomic<bool> done{false};
  auto thread = waits_ ? start_thread("to read a copy",
                                      [&] {
                                        work();
                                        done = true;
                                      })
                       : absl::StatusOr<std::thread>(absl::UnimplementedError("not needed"));
  if (!thread.ok()) return work();
  while (!done) {
    watch_thread();
    std::this_thread::sleep_for(kWatchInterval);
  }
  thread->join();
}

// Anyone may send this signal at any time. Ours comes from a thread of the process to itself, and
// finds it in the C library with its stack above that of the first call, which has therefore
// returned.
bool BorrowedThread::is_our_raise(const SignalStop& stop) const {
  if (stop.signal != kSignal || stop.code != SI_TKILL) return false;
  const auto state = session_.state();
  return state.ok() && libc_.text_begin <= state->regs.rip && state->regs.rip < libc_.text_end &&
         in_second_call(frame_, state->regs.rsp);
}

absl::Status BorrowedThread::not_done(std::string_view action) const {
  if (session_.gone()) {
    return absl::NotFoundError(absl::StrCat("pid ", target_.pid,
                                            session_.exec_seen()
                                                ? " replaced itself (exec) during the attach"
                                                : " ended during the attach"));
  }
  return absl::DeadlineExceededError(
      absl::StrCat(std::string(action), " takes longer than 2 s in pid ", target_.pid,
                   " (slow disk? a constructor that waits?); the program continues, attach again"));
}

// A call may change errno; code that is interrupted at the safe point does not expect that.
void BorrowedThread::save_errno() {
  if (!libc_.errno_distance) return;
  const std::uint64_t address = state_.regs.fs_base + *libc_.errno_distance;
  const auto word = session_.peek(address);
  if (!word.ok()) return;
  errno_address_ = address;
  errno_ = static_cast<std::uint32_t>(*word);
}

void BorrowedThread::restore_errno() const {
  if (errno_address_ == 0) return;
  const auto word = session_.peek(errno_address_);
  if (word.ok()) (void)session_.poke(errno_address_, (*word & ~0xffff'ffffull) | errno_);
}

}  // namespace memprofd
