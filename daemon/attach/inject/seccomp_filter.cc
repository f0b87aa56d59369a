// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/seccomp_filter.h"

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/ptrace_session.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

using Word = std::optional<std::uint32_t>;  // nothing: any value

// Filters of containers take some hundred steps for one call.
constexpr int kMaxSteps = 1 << 16;

// A possible state of a filter.
struct State {
  std::size_t at = 0;
  Word a{0}, x{0};
  std::array<Word, BPF_MEMWORDS> memory{};
};

// The kernel's order, which is that of signed numbers: actions that kill come first.
std::uint32_t stricter(std::uint32_t one, std::uint32_t other) {
  return static_cast<std::int32_t>(one) < static_cast<std::int32_t>(other) ? one : other;
}

Word field(std::uint32_t offset, const FilteredCall& call) {
  constexpr std::uint32_t kArgument1 = offsetof(seccomp_data, args);
  if (offset == offsetof(seccomp_data, nr)) return call.number;
  if (offset == offsetof(seccomp_data, arch)) return AUDIT_ARCH_X86_64;
  if (!call.argument1) return std::nullopt;
  if (offset == kArgument1) return static_cast<std::uint32_t>(*call.argument1);
  if (offset == kArgument1 + 4) return static_cast<std::uint32_t>(*call.argument1 >> 32);
  return std::nullopt;
}

Word computed(std::uint16_t operation, Word a, Word b) {
  if (!a || (operation != BPF_NEG && !b)) return std::nullopt;
  const std::uint32_t right = b.value_or(0);
  switch (operation) {
    case BPF_ADD:
      return *a + right;
    case BPF_SUB:
      return *a - right;
    case BPF_MUL:
      return *a * right;
    case BPF_DIV:
      return right == 0 ? Word() : *a / right;
    case BPF_OR:
      return *a | right;
    case BPF_AND:
      return *a & right;
    case BPF_XOR:
      return *a ^ right;
    case BPF_LSH:
      return right < 32 ? Word(*a << right) : Word();
    case BPF_RSH:
      return right < 32 ? Word(*a >> right) : Word();
    case BPF_NEG:
      return 0u - *a;
    default:
      return std::nullopt;
  }
}

std::optional<bool> compared(std::uint16_t operation, Word a, Word b) {
  if (!a || !b) return std::nullopt;
  switch (operation) {
    case BPF_JEQ:
      return *a == *b;
    case BPF_JGT:
      return *a > *b;
    case BPF_JGE:
      return *a >= *b;
    case BPF_JSET:
      return (*a & *b) != 0;
    default:
      return std::nullopt;
  }
}

// The run of one filter for one call.
class Run {
 public:
  Run(std::span<const sock_filter> filter, const FilteredCall& call)
      : filter_(filter), call_(call) {}

  std::uint32_t strictest() {
    std::uint32_t strictest = SECCOMP_RET_ALLOW;
    open_.push_back({});
    for (int steps = 0; !open_.empty(); ++steps) {
      if (steps == kMaxSteps) return SECCOMP_RET_KILL_PROCESS;
      State state = open_.back();
      open_.pop_back();
      if (const auto action = step(state)) strictest = stricter(strictest, *action);
      if (strictest == SECCOMP_RET_KILL_PROCESS) break;
    }
    return strictest;
  }

 private:
  // Returns the filter's result, or nothing if execution continues in the states of open_.
  std::optional<std::uint32_t> step(State& state) {
    if (state.at >= filter_.size()) return SECCOMP_RET_KILL_PROCESS;
    const sock_filter& code = filter_[state.at++];
    switch (BPF_CLASS(code.code)) {
      case BPF_RET: {
        const Word value = BPF_RVAL(code.code) == BPF_A ? state.a : Word(code.k);
        return value ? *value & SECCOMP_RET_ACTION_FULL : SECCOMP_RET_KILL_PROCESS;
      }
      case BPF_JMP:
        jump(state, code);
        return std::nullopt;
      default:
        if (!compute(state, code)) return SECCOMP_RET_KILL_PROCESS;
        open_.push_back(state);
        return std::nullopt;
    }
  }

  void jump(const State& state, const sock_filter& code) {
    const auto go = [&](std::size_t distance) {
      State next = state;
      next.at += distance;
      open_.push_back(next);
    };
    if (BPF_OP(code.code) == BPF_JA) return go(code.k);
    const Word right = BPF_SRC(code.code) == BPF_X ? state.x : Word(code.k);
    const auto holds = compared(BPF_OP(code.code), state.a, right);
    if (holds.value_or(true)) go(code.jt);
    if (!holds.value_or(false)) go(code.jf);
  }

  // Returns false for an instruction that no valid filter contains.
  bool compute(State& state, const sock_filter& code) const {
    switch (BPF_CLASS(code.code)) {
      case BPF_LD:
        return load(state, code, state.a);
      case BPF_LDX:
        return load(state, code, state.x);
      case BPF_ST:
      case BPF_STX:
        if (code.k >= state.memory.size()) return false;
        state.memory[code.k] = BPF_CLASS(code.code) == BPF_ST ? state.a : state.x;
        return true;
      case BPF_ALU:
        state.a = computed(BPF_OP(code.code), state.a,
                           BPF_SRC(code.code) == BPF_X ? state.x : Word(code.k));
        return true;
      case BPF_MISC:
        (BPF_MISCOP(code.code) == BPF_TAX ? state.x : state.a) =
            BPF_MISCOP(code.code) == BPF_TAX ? state.a : state.x;
        return true;
      default:
        return false;
    }
  }

  bool load(const State& state, const sock_filter& code, Word& into) const {
    switch (BPF_MODE(code.code)) {
      case BPF_ABS:
        into = field(code.k, call_);
        return true;
      case BPF_IMM:
        into = code.k;
        return true;
      case BPF_LEN:
        into = static_cast<std::uint32_t>(sizeof(seccomp_data));
        return true;
      case BPF_MEM:
        if (code.k >= state.memory.size()) return false;
        into = Word(state.memory[code.k]);
        return true;
      default:
        return false;
    }
  }

  std::span<const sock_filter> filter_;
  const FilteredCall& call_;
  std::vector<State> open_;  // states that still have to be followed
};

#define CALL(name)        \
  {                       \
    SYS_##name, #name, {} \
  }

// System calls made by raise(), malloc(), realloc(), free() and dlopen() of the C library, with
// their fallbacks, and the agent's own. The runtime's table of samples grows by realloc().
constexpr FilteredCall kAgentCallTable[] = {
    CALL(memfd_create),   CALL(openat),      CALL(read),     CALL(pread64), CALL(fstat),
    CALL(newfstatat),     CALL(mmap),        CALL(mprotect), CALL(munmap),  CALL(close),
    CALL(mremap),         CALL(sched_yield), CALL(madvise),  CALL(brk),     CALL(futex),
    CALL(rt_sigprocmask), CALL(getpid),      CALL(gettid),   CALL(tgkill),  CALL(clock_gettime),
    CALL(rt_sigreturn),
};
constexpr FilteredCall kCopyCallTable[] = {
    CALL(rt_sigprocmask), {SYS_clone, "clone", CLONE_FILES | CLONE_PTRACE},
    CALL(close_range),    CALL(openat),
    CALL(write),          CALL(close),
    CALL(prctl),          CALL(mmap),
    CALL(futex),          CALL(nanosleep),
    CALL(wait4),          CALL(exit_group),
    CALL(getpid),         CALL(gettid),
    CALL(tgkill),         CALL(clock_gettime),
    CALL(rt_sigreturn),
};

#undef CALL

}  // namespace

const std::span<const FilteredCall> kAgentCalls = kAgentCallTable;
const std::span<const FilteredCall> kCopyCalls = kCopyCallTable;

std::uint32_t strictest_action(std::span<const sock_filter> filter, const FilteredCall& call) {
  return Run(filter, call).strictest();
}

const FilteredCall* first_refused(std::span<const SeccompFilter> filters,
                                  std::span<const FilteredCall> calls) {
  for (const FilteredCall& call : calls) {
    const bool passes = std::all_of(filters.begin(), filters.end(), [&](const auto& filter) {
      const std::uint32_t action = strictest_action(filter, call);
      return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
    });
    if (!passes) return &call;
  }
  return nullptr;
}

absl::StatusOr<bool> has_one_set_of_filters(int pid, const ProcessStatus& thread) {
  const ProcFs proc;
  ASSIGN_OR_RETURN(const std::vector<int> tasks, proc.tasks(pid));
  for (const int tid : tasks) {
    const absl::StatusOr<ProcessStatus> other = proc.thread_status(pid, tid);
    if (absl::IsNotFound(other.status())) continue;
    RETURN_IF_ERROR(other.status());
    if (other->seccomp != thread.seccomp || other->seccomp_filters != thread.seccomp_filters) {
      return false;
    }
  }
  // Its threads may all have ended meanwhile.
  RETURN_IF_ERROR(proc.status(pid).status());
  return true;
}

absl::Status check_filters(const PtraceSession& session, int pid,
                           std::span<const FilteredCall> calls) {
  const auto filters = session.filters();
  if (!filters.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("pid ", pid, " runs under a seccomp filter: ", filters.status().message()));
  }
  const FilteredCall* const refused = first_refused(*filters, calls);
  if (refused == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("pid ", pid, " runs under a seccomp filter that may forbid it to call ",
                   refused->name, ", which is needed"));
}

std::string why_filters_are_hidden() {
  const auto status = ProcFs().status_of_self();
  if (!status.ok()) return "/proc cannot be read";
  if (status->seccomp != 0) return "memprofd has a filter itself";
  if ((status->capabilities >> CAP_SYS_ADMIN & 1) == 0) return "CAP_SYS_ADMIN is missing";
  return "";
}

}  // namespace memprofd
