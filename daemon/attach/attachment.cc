#include "daemon/attach/attachment.h"

#include "absl/strings/str_cat.h"
#include "daemon/attach/injector.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/status_macros.h"
#include "spdlog/spdlog.h"

namespace memprofd {
namespace {

// How long an agent that is there may take to start by itself before a thread
// is borrowed to hurry it.
constexpr auto kOwnStartPatience = std::chrono::milliseconds(200);

KernelConfig kernel_config(const Target& target, const AttachOptions& options) {
  KernelConfig config;
  config.pid = target.pid;
  config.domain_state = target.caml_state_address;
  config.bottom_of_stack_offset = target.abi.bottom_of_stack;
  config.last_return_address_offset = target.abi.last_return_address;
  config.user_callstack = target.user_callstack;
  config.track_interned = target.track_interned;
  if (options.max_frames != 0) config.max_frames = options.max_frames;
  if (options.ring_bytes != 0) config.ring_bytes = options.ring_bytes;
  return config;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attachment>> Attachment::prepare(Target target,
                                                                const AttachOptions& options) {
  ASSIGN_OR_RETURN(TargetLock lock, TargetLock::acquire(target.pid, target.start_time_ticks));
  std::unique_ptr<Attachment> attachment(new Attachment(std::move(target), std::move(lock)));
  RETURN_IF_ERROR(attachment->prepare_agent(options));
  RETURN_IF_ERROR(attachment->load_kernel_side(options));
  return attachment;
}

Attachment::~Attachment() {
  if (control_) request_stop();
}

absl::Status Attachment::prepare_agent(const AttachOptions& options) {
  const int pid = target_.pid;
  may_inject_ = !options.no_inject && check_injectable().ok();
  if (target_.agents.size() > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("pid ", pid, " holds the agent ", target_.agents.size(),
                     " times (", target_.agents[0].path, ", ", target_.agents[1].path,
                     "); restart it with one of them"));
  }
  if (target_.agents.size() == 1) {
    adopt(target_.agents[0]);
    ASSIGN_OR_RETURN(const AgentStatus status, control_->status());
    if (status.state == MEMPROF_AGENT_UNSUPPORTED) {
      return absl::FailedPreconditionError(
          absl::StrCat("pid ", pid, ": its agent found no usable Memprof in this runtime"));
    }
    generation_ = std::max(status.generation, status.requested_generation);
    return absl::OkStatus();
  }
  if (options.no_inject) {
    return absl::FailedPreconditionError(
        absl::StrCat("pid ", pid, " holds no agent and injection is forbidden; start it with "
                     "LD_PRELOAD=libmemprof_agent.so, link the memprof-agent package, or allow "
                     "injection"));
  }
  RETURN_IF_ERROR(check_injectable());
  ASSIGN_OR_RETURN(file_, open_agent_file(options.agent_path));
  ASSIGN_OR_RETURN(libc_, find_libc_functions(pid));
  return absl::OkStatus();
}

absl::Status Attachment::check_injectable() const {
  const int pid = target_.pid;
  ASSIGN_OR_RETURN(const ProcessStatus status, ProcFs().status(pid));
  if (status.tracer_pid != 0) {
    return absl::AlreadyExistsError(absl::StrCat("pid ", pid, " is traced by pid ",
                                                 status.tracer_pid,
                                                 " (a debugger?); detach that first"));
  }
  if (status.seccomp != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("pid ", pid, " runs under a seccomp filter, which might kill it during an "
                     "injection; start it with LD_PRELOAD=libmemprof_agent.so instead"));
  }
  return absl::OkStatus();
}

absl::Status Attachment::load_kernel_side(const AttachOptions& options) {
  ASSIGN_OR_RETURN(kernel_, KernelSide::load(kernel_config(target_, options),
                                             build_kernel_frame_table(target_.frames)));
  RETURN_IF_ERROR(kernel_->attach_capture(target_.exe_path, target_.capture.file_offset));
  return kernel_->attach_lifecycle();
}

void Attachment::adopt(const AgentLocation& agent) {
  control_.emplace(target_.pid, *target_.memory, agent.control_address);
  poll_address_ = agent.poll_address;
}

absl::Status Attachment::begin(double rate) {
  rate_ = rate;
  ++generation_;
  const bool first = !begun_;
  begun_ = true;
  begun_at_ = std::chrono::steady_clock::now();
  if (control_) RETURN_IF_ERROR(control_->request(rate, generation_));
  if (!first) return absl::OkStatus();
  // The semaphore of an agent that is there rises now; that of an injected one
  // when it is mapped.
  if (file_) {
    return kernel_->attach_batch(file_->path, file_->probe_offset, file_->semaphore_offset);
  }
  const AgentLocation& agent = target_.agents[0];
  return kernel_->attach_batch(agent.path, agent.probe_offset, agent.semaphore_offset);
}

absl::StatusOr<Attachment::Progress> Attachment::agent_progress() const {
  if (!control_) return Progress::kWaiting;
  ASSIGN_OR_RETURN(const AgentStatus status, control_->status());
  if (status.generation != generation_) return Progress::kWaiting;
  if (status.state == MEMPROF_AGENT_SAMPLING) return Progress::kSampling;
  if (status.state == MEMPROF_AGENT_IN_USE) {
    return absl::FailedPreconditionError(
        absl::StrCat("pid ", target_.pid, " uses Gc.Memprof itself; it was left alone"));
  }
  return Progress::kWaiting;
}

// Whether the program has allocated since the last look (the first answers yes).
bool Attachment::allocates() {
  std::uint64_t young_ptr = 0;
  if (!target_.memory->read_value(target_.caml_state_address + target_.abi.young_ptr, young_ptr)
           .ok()) {
    return true;  // let the injection find out why
  }
  const bool moved = young_ptr != last_young_ptr_;
  last_young_ptr_ = young_ptr;
  return moved;
}

absl::StatusOr<Attachment::Progress> Attachment::advance(std::chrono::milliseconds patience) {
  ASSIGN_OR_RETURN(const Progress before, agent_progress());
  if (before == Progress::kSampling || !may_inject_ || !allocates()) return before;
  const auto waited = std::chrono::steady_clock::now() - begun_at_;
  if (control_ && waited < kOwnStartPatience) return before;
  const absl::Status injected = inject_agent(patience);
  if (!injected.ok() && !absl::IsUnavailable(injected)) return injected;
  return agent_progress();
}

absl::Status Attachment::inject_agent(std::chrono::milliseconds patience) {
  Injection injection;
  injection.target = &target_;
  injection.kernel = kernel_.get();
  if (!control_) injection.agent_path = file_->path;
  if (libc_.restorer == 0) {
    ASSIGN_OR_RETURN(libc_, find_libc_functions(target_.pid));
  }
  injection.libc = libc_;
  injection.on_loaded = [this] { return adopt_injected_agent(); };
  ASSIGN_OR_RETURN(const InjectionResult result, inject(injection, patience));
  paused_seconds_ += result.paused_seconds;
  spdlog::debug("pid {}: stopped for {:.3f} ms", target_.pid, result.paused_seconds * 1e3);
  return absl::OkStatus();
}

absl::StatusOr<std::uint64_t> Attachment::adopt_injected_agent() {
  if (control_) return poll_address_;
  ASSIGN_OR_RETURN(const auto maps, ProcFs().maps(target_.pid));
  const auto agent = locate_agent(*file_, maps);
  if (!agent) {
    return absl::DataLossError(
        absl::StrCat("pid ", target_.pid, ": its dynamic linker refused ", file_->path,
                     "; is the file readable inside the target?"));
  }
  adopt(*agent);
  RETURN_IF_ERROR(control_->status().status());
  RETURN_IF_ERROR(control_->request(rate_, generation_));
  return poll_address_;
}

std::string Attachment::waiting_for() const {
  const auto status = ProcFs().status(target_.pid);
  if (status.ok() && (status->state == 'T' || status->state == 't')) {
    return "waiting: the program is stopped (SIGSTOP)";
  }
  if (control_) return "waiting for the program's next minor collection";
  return "waiting for the program's next allocation";
}

void Attachment::request_stop() {
  if (!control_) return;
  ++generation_;
  (void)control_->request(0, generation_);
}

bool Attachment::stopped() const {
  if (!control_) return true;
  const auto status = control_->status();
  return !status.ok() || status->state != MEMPROF_AGENT_SAMPLING;
}

void Attachment::detach_probes() { kernel_->detach_probes(); }

}  // namespace memprofd
