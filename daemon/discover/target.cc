// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/target.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "daemon/discover/elf_file.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/discover/process_owner.h"
#include "daemon/discover/program_check.h"
#include "daemon/util/about_pid.h"
#include "daemon/util/base_name.h"
#include "daemon/util/file_id.h"
#include "daemon/util/refusal.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Time from exec until the runtime has started; a large program may come from a slow disk.
constexpr std::chrono::seconds kStartPatience{2};

absl::Status gone(int pid) {
  return absl::NotFoundError(fmt::format("pid {} ended while it was being inspected", pid));
}

absl::Status exec_seen(int pid) {
  return absl::FailedPreconditionError(fmt::format(
      "pid {} started another program (exec) while it was being inspected: try again", pid));
}

absl::Status check_process(const ProcFs& proc, int pid, int& container_pid) {
  ASSIGN_OR_RETURN(const ProcessStatus status, proc.status(pid));
  if (status.has_ended()) {
    return absl::NotFoundError(
        fmt::format("pid {} has ended; its parent has not collected it yet (zombie)", pid));
  }
  if (status.tgid != pid && status.tgid != 0) {
    return absl::FailedPreconditionError(
        fmt::format("pid {0} is a thread of process {1}: use pid {1}", pid, status.tgid));
  }
  container_pid = status.ns_pids.size() > 1 ? status.ns_pids.back() : 0;
  return absl::OkStatus();
}

// Empty if it cannot be read: only readers of a trace use it.
std::string environment_of(const ProcFs& proc, const Target& target) {
  constexpr std::uint64_t kMaxBytes = 1u << 20;
  const auto range = proc.environment_range(target.pid);
  if (!range.ok() || range->second <= range->first) return "";
  std::string text(std::min(range->second - range->first, kMaxBytes), '\0');
  const auto bytes = std::as_writable_bytes(std::span(text));
  return target.memory->read(range->first, bytes).ok() ? text : "";
}

// Call for a process without an executable.
bool is_kernel_thread(const ProcFs& proc, int pid) {
  constexpr int kKthreadd = 2;
  const absl::StatusOr<int> parent = proc.parent(pid);
  return parent.ok() && (*parent == 0 || *parent == kKthreadd);
}

// False if that cannot be read. A process that is ending loses its executable shortly before its
// state changes.
bool has_ended(const ProcFs& proc, int pid) {
  const absl::StatusOr<ProcessStatus> now = proc.status(pid);
  if (!now.ok()) return absl::IsNotFound(now.status());
  if (now->has_ended()) return true;
  return absl::IsFailedPrecondition(proc.exe(pid).status()) && !is_kernel_thread(proc, pid);
}

// Reads the pidfd, start time and names, which identify the process.
absl::Status identify(const ProcFs& proc, Target& target) {
  const int pid = target.pid;
  target.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!target.pidfd) return process_error(pid, errno, "hold on to the process");
  ASSIGN_OR_RETURN(target.comm, proc.comm(pid));
  target.workload = workload_of(proc, pid);
  if (absl::IsFailedPrecondition(proc.exe(pid).status()) && is_kernel_thread(proc, pid)) {
    return absl::FailedPreconditionError(
        fmt::format("pid {} ({}) is a kernel thread, not an OCaml program", pid, target.comm));
  }
  // Opened before the program is inspected: as long as this memory answers, there was no exec.
  ASSIGN_OR_RETURN(target.memory, TargetMemory::open(pid, proc.root()));
  ASSIGN_OR_RETURN(const OwnedProcess process, find_owner(proc, pid));
  target.start_time_ticks = process.start_time_ticks;
  target.owner = process.owner;
  target.ocamlrunparam = variable_of(environment_of(proc, target), "OCAMLRUNPARAM");
  ASSIGN_OR_RETURN(target.exe, proc.exe(pid));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ElfFile>> open_program(const ProcFs& proc, const Target& target) {
  std::string name = target.exe;
  name.resize(without_deleted(name).size());
  auto program = ElfFile::open(proc.path(target.pid, "exe"), name, target.budget);
  if (program.ok()) return program;
  if (absl::IsPermissionDenied(program.status())) {
    return process_error(target.pid, EACCES, "read the program");
  }
  return about_pid(target.pid, program.status());
}

absl::Status find_probe_point(const ElfFile& program, const ElfSymbol& function,
                              std::uint64_t load_bias, ProbePoint& out) {
  std::array<std::byte, 16> code = {};
  const auto offset = program.offset_of(function.address);
  RETURN_IF_ERROR(program.read(function.address, code));
  if (!offset) return absl::DataLossError("a runtime function has no bytes in the program's file");
  out = choose_probe_point(code, *offset, load_bias + function.address);
  return absl::OkStatus();
}

absl::Status find_capture_point(const ElfFile& program, const ElfSymbol& function,
                                std::uint64_t load_bias, const RuntimeAbi& abi, ProbePoint& out) {
  if (!abi.domains) return find_probe_point(program, function, load_bias, out);
  std::array<std::byte, 64> code = {};
  const auto offset = program.offset_of(function.address);
  RETURN_IF_ERROR(program.read(function.address, code));
  const auto point =
      offset ? choose_tail_jump(code, *offset, load_bias + function.address) : std::nullopt;
  if (!point) {
    return absl::FailedPreconditionError(fmt::format(
        "the OCaml {} runtime is a modified build: caml_get_callstack is not understood",
        abi.version));
  }
  out = *point;
  return absl::OkStatus();
}

// Finds the probe points of the possible modes. If a capture point is not understood, observe mode
// remains.
absl::Status find_probe_points(const ElfFile& program, const RuntimeSymbols& symbols,
                               std::uint64_t load_bias, Target& target) {
  if (target.why_no_observe.empty()) {
    RETURN_IF_ERROR(
        find_probe_point(program, symbols.slow_allocation, load_bias, target.slow_allocation));
  }
  if (!target.why_no_agent.empty()) return absl::OkStatus();
  const absl::Status capture =
      find_capture_point(program, symbols.capture, load_bias, target.abi, target.capture);
  if (!capture.ok()) {
    if (!target.why_no_observe.empty()) return capture;
    target.why_no_agent = std::string(capture.message());
    return absl::OkStatus();
  }
  return find_probe_point(program, symbols.safe_point, load_bias, target.safe_point);
}

// Returns 0 if there is none.
std::uint64_t address_of(const ElfSymbol& symbol, std::uint64_t load_bias) {
  return symbol.address == 0 ? 0 : load_bias + symbol.address;
}

AddressRange range_of(const ElfSymbol& function, std::uint64_t load_bias) {
  if (function.address == 0) return {};
  const std::uint64_t begin = load_bias + function.address;
  return {.begin = begin, .end = begin + function.size};
}

absl::Status read_caml_state(const MemoryReader& memory, std::uint64_t pointer, Target& target) {
  RETURN_IF_ERROR(memory.read_value(pointer, target.caml_state_address));
  if (target.caml_state_address != 0) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("pid {} has not started its OCaml runtime yet: try again", target.pid));
}

void find_plugins(const ProcFs& proc, const std::vector<Mapping>& maps, const std::stop_token& stop,
                  Target& target) {
  target.plugin_finder = PluginFinder(target.pid, target.exe, proc, target.budget);
  target.plugins = target.plugin_finder.find_new(maps, *target.memory, stop);
  if (target.register_frametable.address == 0) return;
  std::uint64_t loaded = 0;
  for (const OcamlCode& plugin : target.plugins) loaded += plugin.frames.descriptors().size();
  target.room_for_plugins = room_for_plugins(target.frames.descriptors().size(), loaded);
  target.plugin_finder.set_room(target.room_for_plugins - loaded);
}

// Inspects everything inside the process, for a known program.
absl::Status inspect_code(const ProcFs& proc, std::unique_ptr<ElfFile> program,
                          const RuntimeSymbols& symbols, const std::stop_token& stop,
                          Target& target) {
  const int pid = target.pid;
  ASSIGN_OR_RETURN(const std::vector<Mapping> maps, target.memory->maps());
  const auto load_bias = find_load_bias(maps, target.exe, *program);
  if (!load_bias) {
    return absl::UnavailableError(
        fmt::format("pid {}: {} is mapped differently from its file", pid, target.exe));
  }
  if (!target.abi.domains) {
    RETURN_IF_ERROR(read_caml_state(*target.memory, *load_bias + symbols.state.address, target));
    target.pending_actions = *load_bias + symbols.pending_actions.address;
  }
  RETURN_IF_ERROR(find_probe_points(*program, symbols, *load_bias, target));
  target.gc_counters = {.free_words = address_of(symbols.free_words, *load_bias),
                        .minor_collections = address_of(symbols.minor_collections, *load_bias),
                        .major_cycles = address_of(symbols.major_cycles, *load_bias),
                        .compactions = address_of(symbols.compactions, *load_bias)};
  if (symbols.register_frametable.address != 0) {
    RETURN_IF_ERROR(find_probe_point(*program, symbols.register_frametable, *load_bias,
                                     target.register_frametable));
  }
  if (target.abi.domains && symbols.state.size != 0) {
    target.state_offset = program->thread_local_offset(symbols.state);
  }
  target.user_callstack = range_of(symbols.user_callstack, *load_bias);
  target.track_interned = range_of(symbols.track_interned, *load_bias);
  target.c_calls = {.begin = address_of(symbols.system_begin, *load_bias),
                    .end = address_of(symbols.system_end, *load_bias)};
  absl::StatusOr<FrameTable> frames = read_frame_table(
      *target.memory, maps, *load_bias + symbols.frametable.address, target.budget);
  if (!frames.ok()) return about_pid(pid, frames.status());
  target.frames = *std::move(frames);
  find_plugins(proc, maps, stop, target);
  target.agents = find_agents(proc, pid, maps, *program, *load_bias, target.budget, stop);
  target.registry = find_registry(*program, *load_bias);
  target.program_file = program->descriptor();
  target.program = std::move(program);
  target.load_bias = *load_bias;
  return absl::OkStatus();
}

// Between exec and the start of the runtime a process is in neither the old nor the new program,
// and its memory is not all mapped.
bool is_starting(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsOutOfRange(status);
}

absl::Status inspect_program(const ProcFs& proc, const std::stop_token& stop, Target& target) {
  ASSIGN_OR_RETURN(std::unique_ptr<ElfFile> file, open_program(proc, target));
  absl::StatusOr<OcamlProgram> program = check_program(*file);
  if (!program.ok()) {
    return reworded(program.status(),
                    fmt::format("pid {} {}", target.pid, std::string(program.status().message())));
  }
  target.abi = program->abi;
  target.why_no_agent = program->why_no_agent;
  target.why_no_observe = program->why_no_observe;
  if (target.why_no_agent.empty() && proc.has_other_clock(target.pid)) {
    target.why_no_agent =
        "it has a clock of its own (time namespace), by which the agent would not know when to "
        "stop; run memprofd in that namespace";
  }
  RETURN_IF_ERROR(inspect_code(proc, std::move(file), program->symbols, stop, target));
  return check_same_program(target);
}

absl::StatusOr<Target> inspect_process(const ProcFs& proc, int pid, const std::stop_token& stop) {
  Target target;
  target.pid = pid;
  RETURN_IF_ERROR(check_process(proc, pid, target.container_pid));
  RETURN_IF_ERROR(identify(proc, target));
  const absl::Status inspected = inspect_program(proc, stop, target);
  if (inspected.ok()) return target;
  // An error about a program that is gone does not concern the running one.
  const absl::Status memory = target.memory->check();
  return absl::IsNotFound(memory) ? memory : inspected;
}

absl::StatusOr<Target> inspect_when_started(const ProcFs& proc, int pid,
                                            const std::stop_token& stop) {
  const auto deadline = std::chrono::steady_clock::now() + kStartPatience;
  absl::StatusOr<Target> target = inspect_process(proc, pid, stop);
  while (is_starting(target.status()) && !stop.stop_requested() &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    target = inspect_process(proc, pid, stop);
  }
  if (!is_starting(target.status())) return target;
  return refused(Refusal::kTooYoung, std::string(target.status().message()));
}

}  // namespace

bool has_exited(const Target& target) {
  pollfd fd{target.pidfd.get(), POLLIN, 0};
  return ::poll(&fd, 1, 0) == 1;
}

// Data that was read by pid belongs to this process if its pidfd still reports it as alive.
absl::Status check_same_program(const Target& target) {
  const absl::Status memory = target.memory->check();
  if (absl::IsDeadlineExceeded(memory)) return memory;
  const auto now = file_id(ProcFs().path(target.pid, "exe"));
  // A dying process loses its program and memory before its pidfd reports the end.
  if (!now || has_exited(target)) return gone(target.pid);
  // Where a filter of memprofctl's container denies process_vm_readv.
  if (!memory.ok() && !absl::IsNotFound(memory)) return memory;
  if (memory.ok() && now == file_id(target.program_file->get())) return absl::OkStatus();
  return exec_seen(target.pid);
}

absl::StatusOr<Target> discover_target(int pid, const std::string& proc_root,
                                       std::stop_token stop) {
  const ProcFs proc(proc_root);
  absl::StatusOr<Target> target = inspect_when_started(proc, pid, stop);
  if (target.ok()) return target;
  // If the process has ended in the meantime, that is the best explanation of any error.
  const bool ended = has_ended(proc, pid);
  if (ended && !absl::IsNotFound(target.status())) return gone(pid);
  const bool runs = !ended && proc.start_time(pid).ok() && proc.exe(pid).ok();
  if (runs && absl::IsNotFound(target.status())) return exec_seen(pid);
  return target;
}

}  // namespace memprofd
