// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/agent_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/agent_memfd.h"
#include "daemon/attach/inject/loaded_files.h"
#include "daemon/attach/inject/seccomp_filter.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

AgentPlan no_agent(std::string why, Refusal refusal = Refusal::kOther) {
  return {.why_none = std::move(why), .refusal = refusal};
}

// The reason why no thread of the process can be borrowed, in one line; empty: one can.
struct BorrowObstacle {
  std::string why;
  Refusal refusal = Refusal::kOther;
};

// kFailedPrecondition: no thread can be borrowed, because the process is traced.
absl::StatusOr<BorrowObstacle> why_not_borrowed(int pid) {
  ASSIGN_OR_RETURN(const ProcessStatus status, ProcFs().status(pid));
  if (status.tracer_pid != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "pid ", pid, " is traced by pid ", status.tracer_pid, " (a debugger?); detach that first"));
  }
  // A readable filter is checked once a thread is stopped (inject/seccomp_filter.h).
  if (const std::string hidden = why_filters_are_hidden(); status.seccomp != 0 && !hidden.empty()) {
    return BorrowObstacle{
        absl::StrCat("pid ", pid, " runs under a seccomp filter, which might kill it during an ",
                     "injection and cannot be read (", hidden,
                     "); start it with LD_PRELOAD=libmemprof_agent.so instead"),
        Refusal::kSeccomp};
  }
  if (status.shadow_stack) {
    return BorrowObstacle{
        absl::StrCat("pid ", pid,
                     " runs with a shadow stack, which prevents the injection of code; start it "
                     "with LD_PRELOAD=libmemprof_agent.so, or without the shadow stack "
                     "(GLIBC_TUNABLES=glibc.cpu.x86_shstk=off)")};
  }
  return BorrowObstacle();
}

// A search through this many mappings takes the kernel a quarter of a millisecond.
constexpr std::size_t kManyMappings = 5000;

absl::StatusOr<LibcFunctions> libc_of(const Target& target, const std::vector<Mapping>& maps) {
  ASSIGN_OR_RETURN(LibcFunctions libc, find_libc_functions(target.pid, maps));
  if (libc.loaded_list != 0) {
    libc.loaded_last = last_loaded(*target.memory, libc.loaded_list).value_or(0);
  }
  std::uint64_t distance = 0;
  if (libc.errno_slot != 0 && target.memory->read_value(libc.errno_slot, distance).ok()) {
    libc.errno_distance = distance;
  }
  return libc;
}

// While its semaphore is down, an agent of another build does nothing and never will, whatever its
// control block contains.
bool is_idle(const Target& target, const AgentLocation& agent) {
  std::uint16_t listeners = 0;
  return target.memory->read_value(agent.semaphore_address, listeners).ok() && listeners == 0;
}

// If no thread can be borrowed, the agent starts at the program's next collection.
absl::StatusOr<AgentPlan> use_agent_there(const Target& target, AgentPlan plan, bool may_borrow) {
  if (plan.there->state == MEMPROF_AGENT_UNSUPPORTED) {
    return no_agent(
        absl::StrCat("pid ", target.pid,
                     ": its agent found Gc.Memprof in use or unusable; restart the program"));
  }
  ASSIGN_OR_RETURN(const auto maps, target.memory->maps());
  auto libc = libc_of(target, maps);
  plan.may_inject = may_borrow && libc.ok();
  if (libc.ok()) plan.libc = *std::move(libc);
  return plan;
}

absl::StatusOr<AgentPlan> inject_agent(const Target& target, AgentPlan plan,
                                       const AttachOptions& options) {
  plan.may_inject = true;
  ASSIGN_OR_RETURN(plan.file, open_agent_file(options.agent_path));
  ASSIGN_OR_RETURN(const auto maps, target.memory->maps());
  auto libc = libc_of(target, maps);
  if (absl::IsFailedPrecondition(libc.status())) {
    return no_agent(std::string(libc.status().message()));
  }
  ASSIGN_OR_RETURN(plan.libc, std::move(libc));
  plan.copy_file = !sees_file(ProcFs(), target.pid, plan.file->path);
  plan.listen_late = plan.copy_file || maps.size() > kManyMappings;
  if (!plan.copy_file) return plan;
  const absl::Status proc = check_proc_inside(ProcFs(), target.pid);
  if (absl::IsFailedPrecondition(proc)) return no_agent(std::string(proc.message()));
  RETURN_IF_ERROR(proc);
  return plan;
}

}  // namespace

absl::StatusOr<AgentPlan> read_agent_status(const Target& target) {
  AgentPlan plan;
  std::string hidden;
  for (const AgentLocation& agent : target.agents) {
    if (agent.control_address == 0) {
      hidden = agent.path;
      continue;
    }
    const AgentControl control(target.pid, *target.memory, agent.control_address);
    const absl::StatusOr<AgentStatus> status = control.status();
    if (absl::IsDataLoss(status.status())) {
      ++plan.others;
      if (is_idle(target, agent)) continue;
      return no_agent(absl::StrCat(status.status().message(),
                                   ", and another memprofd or tracer listens to it; end that one"));
    }
    RETURN_IF_ERROR(status.status());
    if (plan.there) {
      return absl::FailedPreconditionError(
          absl::StrCat("pid ", target.pid, " holds the agent twice (", plan.agent.path, ", ",
                       agent.path, "); restart it with one of them"));
    }
    plan.there = *status;
    plan.agent = agent;
  }
  if (!plan.there && !hidden.empty()) {
    return no_agent(absl::StrCat("pid ", target.pid, " holds an agent whose file is gone (", hidden,
                                 "); restart the program, or profile it with memprofd as root"));
  }
  return plan;
}

absl::StatusOr<AgentPlan> plan_agent(const Target& target, const AttachOptions& options) {
  const int pid = target.pid;
  if (!target.why_no_agent.empty()) {
    return no_agent(absl::StrCat("pid ", pid, ": ", target.why_no_agent));
  }
  const absl::StatusOr<BorrowObstacle> obstacle = why_not_borrowed(pid);
  // A failed check is not a reason to wait for an agent that never comes.
  if (!obstacle.ok() && !absl::IsFailedPrecondition(obstacle.status())) return obstacle.status();
  ASSIGN_OR_RETURN(AgentPlan plan, read_agent_status(target));
  if (!plan.why_none.empty()) return plan;
  if (plan.there) {
    return use_agent_there(target, std::move(plan),
                           !options.no_inject && obstacle.ok() && obstacle->why.empty());
  }
  if (target.abi.domains && plan.others > 0) {
    return no_agent(absl::StrCat("pid ", pid,
                                 " holds an agent of another build, and OCaml 5 has no place for a "
                                 "second one; restart the program"));
  }
  if (options.no_inject) {
    return no_agent(
        absl::StrCat("pid ", pid, " holds no agent", plan.others == 0 ? "" : " of this build",
                     " and injection is forbidden; start it with "
                     "LD_PRELOAD=libmemprof_agent.so, link the memprof-agent package, or allow "
                     "injection"));
  }
  RETURN_IF_ERROR(obstacle.status());
  if (!obstacle->why.empty()) return no_agent(obstacle->why, obstacle->refusal);
  return inject_agent(target, std::move(plan), options);
}

}  // namespace memprofd
