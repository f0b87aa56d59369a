// SPDX-License-Identifier: Apache-2.0
// AgentAttachment: loads the agent into the program and sends it its orders.
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "daemon/attach/agent_attachment.h"
#include "daemon/attach/inject/agent_memfd.h"
#include "daemon/attach/inject/agent_owner.h"
#include "daemon/attach/inject/loaded_files.h"
#include "daemon/attach/inject/trip_young_limit.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Time for an agent in the process to start by itself before a thread is borrowed to wake it.
constexpr auto kOwnStartPatience = std::chrono::milliseconds(200);
// Time for a waiting injection to end.
constexpr auto kGiveUpPatience = std::chrono::milliseconds(100);
// Maximum number of mappings that loading the agent adds.
constexpr std::size_t kAgentMappings = 16;
// Longest time between two attempts to wake an idle program.
constexpr auto kMaxTripInterval = std::chrono::milliseconds(500);

}  // namespace

AgentOrders AgentAttachment::orders(const AgentStatus& agent, SessionRequest session) const {
  session.capture = capture_known_to(agent, session.capture);
  AgentOrders orders{.session = session};
  if (!target_.abi.domains) return orders;
  orders.offsets = runtime_offsets(target_.abi);
  // Filters are checked when a thread is borrowed. With an agent that was already loaded, it is
  // unknown how a filter treats calls that the program has never made.
  if (plan_.there) {
    const auto process = ProcFs().status(target_.pid);
    if (!process.ok() || process->seccomp != 0) orders.offsets->local_roots = 0;
  }
  return orders;
}

absl::Status AgentAttachment::advance_injection() {
  const auto now = std::chrono::steady_clock::now();
  if (!injector_) {
    if (control_ && copying()) return absl::OkStatus();  // the copy may be using its thread
    // A stopped program stays stopped, as its user wants.
    if (!plan_.may_inject || injected_ || starts_by_itself(now) || is_stopped()) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(start_injection());
  }
  const auto result = injector_->result();
  if (!result) {
    // Tries often at first. Later an idle program need not be disturbed so often.
    const auto waited = now - begun_at_;
    if (now - tripped_at_ >= std::min<decltype(waited)>(waited / 8, kMaxTripInterval)) {
      trip_young_limit(target_, *kernel_);
      tripped_at_ = now;
    }
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(take_injection());
  RETURN_IF_ERROR(listen_late());
  // The rate may have been changed while the injection waited.
  return control_ ? send_session() : absl::OkStatus();
}

// An agent that is present gets some time before a thread is borrowed for it. One that samples
// changes its session by itself, in its next callback.
bool AgentAttachment::starts_by_itself(std::chrono::steady_clock::time_point now) const {
  if (!control_) return false;
  const auto status = control_->status();
  return now - begun_at_ < kOwnStartPatience || !status.ok() ||
         status->state == MEMPROF_AGENT_SAMPLING;
}

absl::Status AgentAttachment::start_injection() {
  Injection injection;
  injection.target = &target_;
  injection.removal = &removal_;
  if (!control_) injection.agent_path = plan_.file->path;
  injection.agents = plan_.others;
  if (!control_ && plan_.copy_file) {
    ASSIGN_OR_RETURN(injection.agent_copy, read_whole_file(plan_.file->path));
  }
  injection.libc = plan_.libc;
  injection.while_waiting = !control_;
  if (control_) {
    injection.on_loaded = [agent = agent_](const std::string&) { return agent; };
  } else {
    injection.on_loaded = [this, session = session_](const std::string& name) {
      return send_to_loaded_agent(session, name);
    };
  }
  ASSIGN_OR_RETURN(injector_, Injector::start(std::move(injection)));
  return absl::OkStatus();
}

// Runs while the target is paused, so it reads the mappings only if the dynamic linker's list
// cannot be read.
std::optional<AgentAttachment::SeenAgent> AgentAttachment::find_loaded_agent(
    const std::string& name) const {
  const std::string path = plan_.copy_file ? std::string(kAgentMemfdMapping) : plan_.file->path;
  AgentStatusQuery status_query;
  const auto ask = [&](std::uint64_t bias, MemoryQuestion& question) {
    status_query.add_to(question, agent_loaded_at(*plan_.file, bias, path).control_address);
  };
  if (plan_.libc.loaded_last != 0) {
    const auto loaded = load_bias_after(*target_.memory, plan_.libc.loaded_last, name, ask);
    if (loaded) {
      return SeenAgent{agent_loaded_at(*plan_.file, loaded->bias, path),
                       status_query.status(target_.pid, loaded->answers)};
    }
  }
  const auto maps = target_.memory->maps();
  const auto at = maps.ok() ? locate_agent(*plan_.file, *maps, path) : std::nullopt;
  if (!at || !has_its_data(*at, *maps)) return std::nullopt;
  return SeenAgent{*at, AgentControl(target_.pid, *target_.memory, at->control_address).status()};
}

absl::Status AgentAttachment::not_loaded() const {
  if (!has_free_descriptor(ProcFs(), target_.pid)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("pid ", target_.pid, " has no descriptor left to load the agent; raise its ",
                     "limit of open files (prlimit --nofile, ulimit -n), and attach again"));
  }
  const std::uint64_t most = ProcFs().max_mappings();
  const auto maps = target_.memory->maps();
  if (maps.ok() && most != 0 && maps->size() + kAgentMappings > most) {
    return absl::ResourceExhaustedError(
        absl::StrCat("pid ", target_.pid, " has ", maps->size(), " of ", most,
                     " mappings, too many to load the agent; raise vm.max_map_count (sysctl), and "
                     "attach again"));
  }
  const std::string refused =
      absl::StrCat("the dynamic linker of pid ", target_.pid, " refused ",
                   plan_.copy_file ? "the copy of the agent" : plan_.file->path);
  if (!plan_.copy_file) {
    return absl::DataLossError(absl::StrCat(refused, "; is the file readable inside the target?"));
  }
  return absl::DataLossError(absl::StrCat(refused,
                                          "; a policy may forbid executing memory files (SELinux, "
                                          "vm.memfd_noexec): preload or link the agent instead"));
}

// Runs on the injector's thread: uses only injected_agent_ and data that is constant meanwhile.
absl::StatusOr<AgentLocation> AgentAttachment::send_to_loaded_agent(const SessionRequest& session,
                                                                    const std::string& name) {
  const auto found = find_loaded_agent(name);
  if (!found) return not_loaded();
  const auto& [agent, seen] = *found;
  ASSIGN_OR_RETURN(const AgentStatus status, seen);
  RETURN_IF_ERROR(check_owner(status.owner, target_.pid));
  injected_agent_ = agent;  // the caller may have given up, but the agent is claimed
  // Without a listener the agent's first records would be lost.
  AgentOrders sent = plan_.listen_late ? AgentOrders() : orders(status, session);
  sent.owner = OwnerToken::ours();
  RETURN_IF_ERROR(AgentControl(target_.pid, *target_.memory, agent.control_address).give(sent));
  return agent;
}

// Takes the injector's result. Everything that it has claimed must be released from now on, even if
// it failed later or no one waits for it any longer.
absl::Status AgentAttachment::take_injection() {
  const auto result = *injector_->result();
  injected_ = true;
  if (result.ok()) injected_agent_ = result->agent;
  if (injected_agent_) {
    adopt(*std::exchange(injected_agent_, std::nullopt));
    claimed_ = true;
  }
  if (injector_->gave_up()) {
    give_up_on(result.status());
    return absl::OkStatus();
  }
  if (!result.ok() && !absl::IsCancelled(result.status())) return result.status();
  if (result.ok()) paused_seconds_ += result->paused_seconds;
  injector_.reset();
  if (!result.ok()) return absl::OkStatus();
  if (result->copy) agent_copy_ = result->copy;
  if (!result->polled) {  // a borrowed thread may wake it, unless it starts by itself
    injected_ = false;
    begun_at_ = std::chrono::steady_clock::now();
  }
  return absl::OkStatus();
}

// Attaches the batch probe now. The agent has not started, because no probe was listening.
absl::Status AgentAttachment::listen_late() {
  if (!control_ || kernel_->probes().attached(Probe::kBatch)) return absl::OkStatus();
  const SharedFd& file = plan_.copy_file ? agent_copy_ : plan_.file->elf->descriptor();
  return attach_agent_probes(file, agent_loaded_at(*plan_.file, 0, ""));
}

// An agent that is already present starts at the program's next collection.
void AgentAttachment::give_up_on(const absl::Status& why) {
  injector_.reset();
  plan_.may_inject = false;
  if (control_) return;
  why_no_agent_ = absl::StrCat(why.message(), "; start it with LD_PRELOAD=libmemprof_agent.so");
}

// Ends the attempt to borrow a thread to wake the agent; a later call may try again. Returns true
// if the attempt has ended. Fast enough to be called on the control thread.
bool AgentAttachment::end_waking() {
  if (!injector_) return true;
  injector_->give_up();
  const auto end = std::chrono::steady_clock::now() + kGiveUpPatience;
  while (!injector_->result() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!injector_gone()) return false;
  injected_ = false;
  begun_at_ = std::chrono::steady_clock::now();
  return true;
}

// Does not wait for the injector, which may hold a paused thread of a program.
bool AgentAttachment::injector_gone() {
  if (!injector_) return true;
  injector_->give_up();
  if (!injector_->result()) return false;
  (void)take_injection();
  injector_.reset();
  return true;
}

}  // namespace memprofd
