// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/agent_attachment.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/agent_memfd.h"
#include "daemon/attach/inject/agent_owner.h"
#include "daemon/attach/inject/loaded_files.h"
#include "daemon/attach/inject/trip_young_limit.h"
#include "daemon/attach/kernel/kernel_walk.h"
#include "daemon/discover/agent_names.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/log.h"
#include "daemon/util/open_files.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Maximum number of sessions tried while an agent of another build still samples. The agent answers
// each one at a collection.
constexpr int kInUsePatience = 5;

// Address range of the code that may call C. OCaml 4: the OCaml code, which is linked as one piece
// before the C code. OCaml 5: the runtime's code that calls C.
AddressRange code_that_calls_c(const Target& target) {
  if (target.abi.domains) return target.c_calls;
  const std::vector<FrameDescriptor>& frames = target.frames.descriptors();
  const auto in_ocaml = [](const FrameDescriptor& frame) {
    return !frame.ends_chunk();  // frames of the runtime's assembler end a chunk
  };
  const auto first = std::find_if(frames.begin(), frames.end(), in_ocaml);
  if (first == frames.end()) return {};
  const auto last = std::find_if(frames.rbegin(), frames.rend(), in_ocaml);
  return {first->return_address, last->return_address + 1};
}

// Time for an agent in the process to start by itself before a thread is borrowed to wake it.
constexpr auto kOwnStartPatience = std::chrono::milliseconds(200);
// Time for a waiting injection to end.
constexpr auto kGiveUpPatience = std::chrono::milliseconds(100);
// Maximum number of mappings that loading the agent adds.
constexpr std::size_t kAgentMappings = 16;
// Longest time between two attempts to wake an idle program.
constexpr auto kMaxTripInterval = std::chrono::milliseconds(500);

}  // namespace

KernelConfig kernel_config(const Target& target, const AttachOptions& options) {
  KernelConfig config;
  config.pid = target.pid;
  config.follow_forks = options.follow_forks;
  config.fiber_stacks = target.abi.domains;
  config.domain_state = target.caml_state_address;
  config.c_stack_offset = target.abi.c_stack;
  config.c_calls = code_that_calls_c(target);
  config.bottom_of_stack_offset = target.abi.bottom_of_stack;
  config.last_return_address_offset = target.abi.last_return_address;
  config.user_callstack = target.user_callstack;
  config.track_interned = target.track_interned;
  if (options.max_frames != 0) config.max_frames = options.max_frames;
  if (options.ring_bytes != 0) config.ring_bytes = options.ring_bytes;
  return config;
}

absl::StatusOr<std::unique_ptr<KernelSide>> load_for(const Target& target,
                                                     const KernelConfig& config) {
  RETURN_IF_ERROR(check_room_for_programs(target.pid));
  const KernelFrameTable table =
      build_kernel_frame_table(target.frames, target.room_for_plugins, target.budget);
  if (const std::uint64_t lost = target.frames.skipped + table.left_out; lost > 0) {
    log_warning(
        "pid {}: {} frame descriptors of {} are malformed or exceed the memory limit of a target: "
        "callstacks end at their code",
        target.pid, lost, target.exe);
  }
  ASSIGN_OR_RETURN(auto kernel, KernelSide::load(config, table));
  if (target.register_frametable.address != 0) {
    RETURN_IF_ERROR(kernel->probes().attach(Probe::kFrametable,
                                            site_in_program(target, target.register_frametable)));
  }
  RETURN_IF_ERROR(kernel->probes().attach_lifecycle());
  return kernel;
}

absl::StatusOr<std::unique_ptr<AgentAttachment>> AgentAttachment::prepare(
    Target target, TargetLock lock, AgentPlan plan, const AttachOptions& options) {
  std::unique_ptr<AgentAttachment> attachment(
      new AgentAttachment(std::move(target), std::move(lock), std::move(plan), options));
  ASSIGN_OR_RETURN(attachment->capture_mode_,
                   capture_for(attachment->target_.abi, options.capture));
  if (attachment->native_heap_.requested()) RETURN_IF_ERROR(check_kernel_walks("--c-heap"));
  if (attachment->plan_.there) RETURN_IF_ERROR(attachment->claim_agent_there());
  RETURN_IF_ERROR(attachment->load_kernel_side(options));
  return attachment;
}

absl::Status AgentAttachment::claim_agent_there() {
  adopt(plan_.agent);
  RETURN_IF_ERROR(claim_agent(*control_, target_.pid));
  claimed_ = true;
  session_.generation = std::max(plan_.there->generation, plan_.there->requested_generation);
  return absl::OkStatus();
}

absl::Status AgentAttachment::load_kernel_side(const AttachOptions& options) {
  KernelConfig config = kernel_config(target_, options);
  config.capture = capture_mode_ == CaptureMode::kKernel || capture_mode_ == CaptureMode::kAuto;
  config.native_heap = native_heap_.requested();
  ASSIGN_OR_RETURN(kernel_, load_for(target_, config));
  if (control_) kernel_->set_agent(agent_.control_address);
  return absl::OkStatus();
}

// Returns false if an earlier session has shown that the agent cannot walk the stack.
bool AgentAttachment::agent_may_walk() const {
  if (!begun_ || !control_) return true;
  const auto status = control_->status();
  return status.ok() && status->walk_state == MEMPROF_WALK_OK;
}

// Keeps kernel capture if this attachment has it. Without --capture kernel, an attachment gets it
// only while few targets of the program use it.
memprof_capture_by AgentAttachment::choose_capture(memprof_capture_by wanted) {
  if (wanted == MEMPROF_CAPTURE_BY_RUNTIME) return wanted;
  if (wanted == MEMPROF_CAPTURE_BY_AGENT)
    return agent_may_walk() ? wanted : MEMPROF_CAPTURE_BY_RUNTIME;
  const FileId program = file_id(target_.program_file->get()).value_or(FileId());
  if (kernel_capture_) return MEMPROF_CAPTURE_BY_KERNEL;
  if (capture_mode_ == CaptureMode::kKernel) {
    kernel_capture_ = KernelCapture::take_over_limit(program);
  } else {
    kernel_capture_ = KernelCapture::take(program);
  }
  if (kernel_capture_) return MEMPROF_CAPTURE_BY_KERNEL;
  log_info("pid {}: using runtime capture, because {} other targets of {} use kernel capture",
           target_.pid, kMaxKernelCaptures, target_.exe);
  return MEMPROF_CAPTURE_BY_RUNTIME;
}

absl::Status AgentAttachment::attach_capture() {
  Probes& probes = kernel_->probes();
  if (probes.attached(Probe::kCapture)) return absl::OkStatus();
  return probes.attach(Probe::kCapture, site_in_program(target_, target_.capture));
}

void AgentAttachment::adopt(const AgentLocation& agent) {
  control_.emplace(target_.pid, *target_.memory, agent.control_address);
  agent_ = agent;
  if (kernel_) kernel_->set_agent(agent.control_address);
  native_heap_.set_agent(agent, !plan_.there);
}

absl::Status AgentAttachment::begin(double rate, memprof_capture_by wanted) {
  session_ = {rate, session_.generation + 1, choose_capture(wanted)};
  const bool first = !begun_;
  begun_ = true;
  begun_at_ = std::chrono::steady_clock::now();
  // The probe stays until a session with another capture mode runs.
  if (session_.capture == MEMPROF_CAPTURE_BY_KERNEL) RETURN_IF_ERROR(attach_capture());
  // Probe first, then the request: the semaphore rises a moment before the probe reports to
  // memprofd, and a session that began in between would lose its first events.
  if (first) {
    RETURN_IF_ERROR(check_same_program(target_));
    RETURN_IF_ERROR(attach_batch());
    RETURN_IF_ERROR(check_same_program(target_));
  }
  if (!control_) return absl::OkStatus();  // not injected yet; the injection delivers the orders
  RETURN_IF_ERROR(check_claim(*control_, target_.pid));
  injected_ = false;  // a borrowed thread may wake the agent for this session too
  return send_session();
}

// keep_alive() repeats this until the agent has received it.
absl::Status AgentAttachment::send_session() const {
  const auto agent = control_->status();
  absl::Status sent = agent.ok() ? control_->give(orders(*agent, session_)) : agent.status();
  if (sent.ok()) sent = native_heap_.request();
  return absl::IsDeadlineExceeded(sent) ? absl::OkStatus() : sent;
}

// The semaphore of an agent that is present rises now; that of an injected agent rises when it is
// mapped.
absl::Status AgentAttachment::attach_batch() {
  if (plan_.listen_late) return absl::OkStatus();
  if (!plan_.file) return attach_agent_probes(plan_.agent.file, plan_.agent);
  return attach_agent_probes(plan_.file->elf->descriptor(), agent_loaded_at(*plan_.file, 0, ""));
}

// at: only its file offsets are used.
absl::Status AgentAttachment::attach_agent_probes(const SharedFd& file, const AgentLocation& at) {
  RETURN_IF_ERROR(native_heap_.attach_probes(kernel_->probes(), file, at));
  return kernel_->probes().attach(Probe::kBatch, {file, at.probe_offset, at.semaphore_offset});
}

// An agent that cannot walk the stack lets the runtime capture.
void AgentAttachment::note_capture(const AgentStatus& status) {
  if (session_.capture != MEMPROF_CAPTURE_BY_AGENT ||
      status.running_capture == MEMPROF_CAPTURE_BY_AGENT)
    return;
  session_.capture = MEMPROF_CAPTURE_BY_RUNTIME;
  const std::string_view why = status.followed_since ? walk_state_text(status.walk_state)
                                                     : "the agent there is an older one";
  log_warning("pid {}: {}; switched to runtime capture", target_.pid, why);
}

absl::StatusOr<AgentAttachment::Progress> AgentAttachment::agent_progress() {
  if (!control_) return Progress::kWaiting;
  const absl::StatusOr<AgentStatus> now = control_->status();
  if (absl::IsDeadlineExceeded(now.status())) return Progress::kWaiting;
  ASSIGN_OR_RETURN(const AgentStatus status, now);
  if (status.generation != session_.generation) {
    RETURN_IF_ERROR(check_claim(*control_, target_.pid));
    return Progress::kWaiting;
  }
  switch (status.state) {
    case MEMPROF_AGENT_SAMPLING:
    case MEMPROF_AGENT_STOPPED:  // keep_alive() reports what happened afterwards
    case MEMPROF_AGENT_ASIDE:
      note_capture(status);
      return Progress::kSampling;
    case MEMPROF_AGENT_IN_USE:
      // An agent of another build uses Gc.Memprof. It will detect at its next collection that it
      // has no watcher.
      if (plan_.others > 0 && in_use_++ < kInUsePatience) return Progress::kAgain;
      why_no_agent_ =
          absl::StrCat("pid ", target_.pid, " uses Gc.Memprof itself",
                       plan_.others == 0 ? "" : ", or an agent of another build in it still does",
                       "; its tracker was not touched");
      return Progress::kNoAgent;
    case MEMPROF_AGENT_UNSUPPORTED:
      why_no_agent_ = absl::StrCat("pid ", target_.pid, ": the OCaml ", target_.abi.version,
                                   " runtime is a modified build: a domain's profile is not where "
                                   "it is expected");
      return Progress::kNoAgent;
    default:
      return Progress::kWaiting;
  }
}

absl::StatusOr<AgentAttachment::Progress> AgentAttachment::advance() {
  RETURN_IF_ERROR(advance_injection());
  if (!control_ && !why_no_agent_.empty()) return Progress::kNoAgent;
  ASSIGN_OR_RETURN(const Progress progress, agent_progress());
  if (progress != Progress::kSampling) return progress;
  if (!injector_gone()) return Progress::kWaiting;
  if (session_.capture != MEMPROF_CAPTURE_BY_KERNEL) {
    kernel_->probes().begin_detach(Probe::kCapture);
    kernel_capture_.reset();
  }
  return progress;
}

std::string AgentAttachment::keep_alive(bool sampling) const {
  if (!control_) return "";
  if (!sampling) {
    (void)send_session();
    return "";
  }
  const auto status = control_->status();
  if (!status.ok()) return "";  // the program ends, which is detected elsewhere
  if (status->state == MEMPROF_AGENT_SAMPLING && session_.capture == MEMPROF_CAPTURE_BY_AGENT &&
      status->walk_state != MEMPROF_WALK_OK)
    return std::string(walk_state_text(status->walk_state)) + "; switched to runtime capture";
  if (status->state == MEMPROF_AGENT_SAMPLING || status->state == MEMPROF_AGENT_ASIDE) return "";
  return status->state == MEMPROF_AGENT_STOPPED
             ? "the program has called Gc.Memprof.stop"
             : "the agent stopped because memprofd did not renew its lease in time";
}

bool AgentAttachment::is_stopped() const {
  const auto status = ProcFs().status(target_.pid);
  return status.ok() && status->state == 'T';  // 't' means a tracer, which may be ours
}

std::string AgentAttachment::waiting_for() const {
  if (is_stopped()) return "waiting: the program is stopped (SIGSTOP)";
  if (!control_ && !injector_) return "waiting: memprofd has not begun to load the agent";
  const Obstacle obstacle = injector_ ? injector_->obstacle() : Obstacle::kNone;
  if (obstacle == Obstacle::kStack || obstacle == Obstacle::kSignalBlocked) {
    return absl::StrCat(std::string(obstacle_text(obstacle)), ", or preload or link the agent");
  }
  if (obstacle != Obstacle::kNone) return std::string(obstacle_text(obstacle));
  if (control_ && !plan_.may_inject) return "waiting for the program's next minor collection";
  return "waiting for the program's next allocation; if only its C code works, attach with --mode "
         "observe --c-heap";
}

// ------------------------------------------------------------------- injection

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

// ----------------------------------------------------------------- heap copies

absl::StatusOr<std::shared_ptr<const CopyLease>> AgentAttachment::copy_lease() {
  const auto refused = [this](std::string_view why) {
    return absl::FailedPreconditionError(
        fmt::format("no snapshot can be taken of pid {}: {}", target_.pid, why));
  };
  if (!plan_.may_inject) {
    return refused(
        "none of its threads may be borrowed (--no-inject, a seccomp filter, a shadow stack); "
        "attach without that restriction");
  }
  if (!control_ || !end_waking())
    return refused("its agent is not ready yet; try again in a moment");
  if (copying()) {
    return absl::AlreadyExistsError(fmt::format(
        "no snapshot can be taken of pid {}: another one is being taken; wait for its end",
        target_.pid));
  }
  const auto lease = std::make_shared<CopyLease>(
      target_, kernel_.get(), plan_.file ? plan_.file->elf->descriptor() : plan_.agent.file,
      agent_.control_address, plan_.libc, paused_for_copies_, copy_pause_ratio_);
  lease_ = lease;
  return lease;
}

void AgentAttachment::give_up_copy() {
  if (const auto lease = lease_.lock()) lease->given_up = true;
}

// Returns quickly: a copy that was given up ends soon.
void AgentAttachment::wait_for_copy() {
  give_up_copy();
  while (copying()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// ------------------------------------------------------------------- detaching

AgentAttachment::~AgentAttachment() { detach(); }

void AgentAttachment::request_stop() {
  if (!claimed_) return;  // no lock, or another memprofd's
  ++session_.generation;
  session_.rate = 0;
  (void)control_->give({.session = session_});
  native_heap_.request_stop();
}

bool AgentAttachment::stopped() const {
  if (!control_) return true;
  const auto status = control_->status();
  if (status.ok() && status->state == MEMPROF_AGENT_SAMPLING) return false;
  return native_heap_.stopped();
}

void AgentAttachment::begin_detach() {
  give_up_copy();
  (void)injector_gone();
  kernel_->probes().begin_detach();
}

// Returns no address while the agent's location is unknown; an agent with the batch probe may still
// be loaded.
std::vector<std::uint64_t> AgentAttachment::probe_addresses() const {
  if (!control_) return {};
  std::vector<std::uint64_t> addresses{agent_.probe_address};
  for (const ProbePoint& point : {target_.capture, target_.register_frametable}) {
    if (point.address != 0) addresses.push_back(point.address);
  }
  for (const std::uint64_t offset : {agent_.native_alloc_offset, agent_.native_free_offset}) {
    if (offset != 0) addresses.push_back(agent_.probe_address - agent_.probe_offset + offset);
  }
  return addresses;
}

bool AgentAttachment::detached() {
  return !injector_ && !copying() && removal_.done() &&
         kernel_->probes().detached(target_.memory->quick(), probe_addresses());
}

void AgentAttachment::detach() {
  wait_for_copy();
  if (injector_) injector_->wait();
  (void)injector_gone();
  request_stop();
  if (kernel_) kernel_->probes().detach();
  kernel_capture_.reset();
  if (std::exchange(claimed_, false)) release_agent(*control_);
  lock_.release();
}

}  // namespace memprofd
