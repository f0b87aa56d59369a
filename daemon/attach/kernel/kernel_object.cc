// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/kernel_object.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "bpf/malloc_probes.h"
#include "daemon/attach/kernel/bpf_support.h"
#include "daemon/attach/kernel/kernel_structures.h"
#include "daemon/attach/kernel/probe_programs.h"
#include "daemon/attach/kernel/uprobe_session.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/status_macros.h"
#include "safe_point.skel.h"

namespace memprofd {
namespace {

constexpr std::uint32_t kMinRingBytes = 256u << 10;
constexpr std::uint32_t kMaxRingBytes = 1u << 30;
constexpr std::uint32_t kRingBytesOfSeen = 64;  // per stack that the kernel remembers as sent

// The process in its own pid namespace, where thread ids are those of gettid(), which the agent
// writes into its records.
struct OwnNames {
  std::uint32_t tgid = 0;
  std::uint64_t device = 0;  // in the kernel's encoding
  std::uint64_t inode = 0;
};

absl::StatusOr<OwnNames> own_names(int pid) {
  const ProcFs proc;
  ASSIGN_OR_RETURN(const ProcessStatus status, proc.status(pid));
  struct stat info {};
  if (::stat(proc.path(pid, "ns/pid").c_str(), &info) != 0)
    return process_error(pid, errno, "read the pid namespace");
  const std::uint64_t device = std::uint64_t{major(info.st_dev)} << 20 | minor(info.st_dev);
  const int tgid = status.ns_pids.empty() ? pid : status.ns_pids.back();
  return OwnNames{static_cast<std::uint32_t>(tgid), device, info.st_ino};
}

std::uint32_t ring_size(std::uint32_t wanted) {
  return std::bit_ceil(std::clamp(wanted, kMinRingBytes, kMaxRingBytes));
}

// Configuration of all objects of a target.
template <typename Globals>
void configure_names(Globals& globals, const KernelConfig& config, const OwnNames& names) {
  globals.target_pid = static_cast<std::uint32_t>(config.pid);
  globals.target_tgid = names.tgid;
  globals.pid_namespace_device = names.device;
  globals.pid_namespace_inode = names.inode;
  globals.wakeup_bytes = ring_size(config.ring_bytes) / 4;
}

// A callstack has at most as many entries as frames, because a run takes two entries.
void size_maps(memprof_bpf& skeleton, const KernelConfig& config, std::uint32_t table_bits) {
  auto& globals = *skeleton.rodata;
  globals.table_bits = table_bits;
  globals.max_frames = std::clamp(config.max_frames, 1u, MEMPROF_MAX_FRAMES);
  globals.entry_room = std::min(globals.max_frames, MEMPROF_MAX_STACK_ENTRIES);
  globals.seen_stacks =
      std::min(ring_size(config.ring_bytes) / kRingBytesOfSeen, MEMPROF_SEEN_STACKS);
  // These calls fail only after the load.
  (void)bpf_map__set_max_entries(skeleton.maps.events, ring_size(config.ring_bytes));
  (void)bpf_map__set_max_entries(skeleton.maps.frame_table, 1u << table_bits);
  (void)bpf_map__set_max_entries(skeleton.maps.seen, globals.seen_stacks);
  if (!config.follow_forks) (void)bpf_map__set_max_entries(skeleton.maps.children, 1);
}

// Call it after size_maps().
absl::Status use_scratch(KernelObject& object) {
  auto& globals = *object.main->rodata;
  bpf_map* const map = object.main->maps.scratch;
  const std::uint32_t spared = MEMPROF_MAX_STACK_ENTRIES - globals.entry_room;
  ASSIGN_OR_RETURN(object.scratch,
                   ScratchMap::of(bpf_map__value_size(map) - spared * sizeof(std::uint64_t)));
  globals.scratch_slots = object.scratch->slots;
  (void)bpf_map__reuse_fd(map, object.scratch->fd.get());
  return absl::OkStatus();
}

void configure_walk(memprof_bpf& skeleton, const KernelConfig& config) {
  auto& globals = *skeleton.rodata;
  globals.follow_forks = config.follow_forks;
  globals.fiber_stacks = config.fiber_stacks;
  globals.bottom_of_stack_address = config.domain_state + config.bottom_of_stack_offset;
  globals.domain_state_address = config.domain_state;
  globals.current_stack_offset = config.current_stack_offset;
  globals.stat_words_offset = config.stat_words_offset;
  globals.young_ptr_offset = config.young_ptr_offset;
  globals.young_end_offset = config.young_end_offset;
  globals.young_limit_offset = config.young_limit_offset;
  globals.domain_id_offset = config.domain_id_offset;
  globals.c_stack_offset = config.c_stack_offset;
  globals.c_call_begin = config.c_calls.begin;
  globals.c_call_end = config.c_calls.end;
  globals.user_callstack_begin = config.user_callstack.begin;
  globals.user_callstack_end = config.user_callstack.end;
  globals.track_interned_begin = config.track_interned.begin;
  globals.track_interned_end = config.track_interned.end;
}

void choose_programs(memprof_bpf& skeleton, const KernelConfig& config) {
  for (const ProbeRow& row : kProbeTable) {
    bpf_program* const chosen = row.program(skeleton.progs, config.fiber_stacks);
    (void)bpf_program__set_autoload(row.program(skeleton.progs, !config.fiber_stacks), false);
    (void)bpf_program__set_autoload(chosen, row.wanted(config));
    choose_uprobe_kind(chosen, config.uprobes);
  }
  (void)bpf_program__set_autoload(skeleton.progs.on_signal, !config.observe);
}

absl::Status choose_malloc_probes(memprof_bpf& skeleton, const KernelConfig& config) {
  const bool wanted = config.malloc_probes.has_value();
  (void)bpf_program__set_autoload(skeleton.progs.c_call_probe, wanted);
  (void)bpf_program__set_autoload(skeleton.progs.c_free_probe, wanted);
  if (!wanted) return absl::OkStatus();
  choose_uprobe_session(skeleton.progs.c_call_probe);
  choose_uprobe_kind(skeleton.progs.c_free_probe, UprobeKind::kMultiLink);
  ASSIGN_OR_RETURN(const KernelOffsets places, kernel_offsets());
  skeleton.rodata->thread_pointer_at = places.thread_pointer;
  skeleton.rodata->task_memory_at = places.task_memory;
  skeleton.rodata->memory_probe_page_at = places.memory_probe_page;
  skeleton.rodata->probe_page_address_at = places.probe_page_address;
  skeleton.rodata->task_probes_at = places.task_probes;
  skeleton.rodata->probes_awaited_at = places.probes_awaited;
  skeleton.rodata->awaited_next_at = places.awaited_next;
  skeleton.rodata->awaited_slot_at = places.awaited_slot;
  skeleton.rodata->sampler_scale = MEMPROF_SAMPLER_SCALE(config.malloc_probes->interval);
  skeleton.rodata->domain_state_offset = config.malloc_probes->domain_state_offset;
  skeleton.bss->budget.most = config.malloc_probes->max_hits;
  (void)bpf_map__set_max_entries(skeleton.maps.c_blocks, MEMPROF_C_PROBE_BLOCKS);
  (void)bpf_map__set_max_entries(skeleton.maps.c_calls, MEMPROF_C_PROBE_CALLS);
  return absl::OkStatus();
}

// Makes the second object use the maps of the first.
void share_maps(const memprof_bpf& from, tasks_bpf& to) {
  (void)bpf_map__reuse_fd(to.maps.events, bpf_map__fd(from.maps.events));
  (void)bpf_map__reuse_fd(to.maps.children, bpf_map__fd(from.maps.children));
  (void)bpf_map__reuse_fd(to.maps.drops, bpf_map__fd(from.maps.drops));
  (void)bpf_map__reuse_fd(to.maps.counts, bpf_map__fd(from.maps.counts));
}

absl::Status check_types_for_forks(const KernelConfig& config) {
  if (!config.follow_forks || has_kernel_types()) return absl::OkStatus();
  return absl::UnimplementedError(
      "following children (--follow-forks) needs the kernel's type information, "
      "/sys/kernel/btf/vmlinux; boot a kernel with CONFIG_DEBUG_INFO_BTF, or leave that out");
}

absl::Status load_tasks(const KernelConfig& config, const OwnNames& names, KernelObject& object) {
  RETURN_IF_ERROR(check_types_for_forks(config));
  if (!has_kernel_types()) return absl::OkStatus();
  const bool pointers = config.fiber_stacks && !config.observe;
  object.tasks.reset(tasks_bpf__open());
  if (object.tasks == nullptr) return bpf_load_error(errno);
  tasks_bpf& tasks = *object.tasks;
  configure_names(*tasks.rodata, config, names);
  share_maps(*object.main, tasks);
  (void)bpf_program__set_autoload(tasks.progs.on_fork, config.follow_forks);
  (void)bpf_program__set_autoload(tasks.progs.thread_pointers, pointers);
  const int error = tasks_bpf__load(&tasks);
  if (error == 0) return absl::OkStatus();
  object.tasks.reset();
  if (!config.follow_forks) return absl::OkStatus();  // the object is optional then
  return bpf_load_error(-error);
}

}  // namespace

absl::StatusOr<KernelObject> KernelObject::load(const KernelConfig& config,
                                                std::uint32_t table_bits) {
  ASSIGN_OR_RETURN(const OwnNames names, own_names(config.pid));
  KernelObject object;
  object.main.reset(memprof_bpf__open());
  if (object.main == nullptr) return bpf_load_error(errno);
  configure_names(*object.main->rodata, config, names);
  configure_walk(*object.main, config);
  size_maps(*object.main, config, table_bits);
  RETURN_IF_ERROR(use_scratch(object));
  choose_programs(*object.main, config);
  RETURN_IF_ERROR(choose_malloc_probes(*object.main, config));
  if (const int error = memprof_bpf__load(object.main.get()); error != 0)
    return bpf_load_error(-error);
  RETURN_IF_ERROR(load_tasks(config, names, object));
  return object;
}

absl::Status learn_kernel_features() {
  safe_point_bpf* const skeleton = safe_point_bpf__open_and_load();
  if (skeleton == nullptr) return bpf_load_error(errno);
  safe_point_bpf__destroy(skeleton);
  return absl::OkStatus();
}

}  // namespace memprofd
