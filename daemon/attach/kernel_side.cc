#include "daemon/attach/kernel_side.h"

#include <bpf/bpf.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/attach/bpf_support.h"
#include "daemon/attach/kernel_table.h"
#include "daemon/attach/mapped_pages.h"
#include "daemon/attach/thread_pointers.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/status_macros.h"
#include "memprof.skel.h"

namespace memprofd {
namespace {

constexpr std::uint32_t kMinRingBytes = 256u << 10;
constexpr std::uint32_t kMaxRingBytes = 1u << 30;
constexpr std::uint32_t kMaxTableBits = 28;
// Tells consume's callback to stop libbpf's loop.
constexpr int kStop = -ECANCELED;

struct SkeletonCloser {
  void operator()(memprof_bpf* skeleton) const { memprof_bpf__destroy(skeleton); }
};
using Skeleton = std::unique_ptr<memprof_bpf, SkeletonCloser>;

// The process as its own pid namespace names it. Threads are then numbered as
// their gettid() says, which is what the agent writes into its records.
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

absl::Status check_config(const KernelConfig& config, const KernelFrameTable& table) {
  if (!config.fiber_stacks &&
      config.last_return_address_offset != config.bottom_of_stack_offset + 8)
    return absl::InvalidArgumentError(absl::StrFormat(
        "the runtime keeps last_return_address at %u and bottom_of_stack at %u, not side by "
        "side; this OCaml version is not supported",
        config.last_return_address_offset, config.bottom_of_stack_offset));
  if (table.bits < 1 || table.bits > kMaxTableBits ||
      table.slots.size() != std::size_t{1} << table.bits)
    return absl::InvalidArgumentError(
        absl::StrFormat("the frame table has %u slots for %u bits; at most %u bits are supported",
                        table.slots.size(), table.bits, kMaxTableBits));
  return absl::OkStatus();
}

std::uint32_t ring_size(std::uint32_t wanted) {
  return std::bit_ceil(std::clamp(wanted, kMinRingBytes, kMaxRingBytes));
}

void configure(memprof_bpf& skeleton, const KernelConfig& config, const OwnNames& names,
               std::uint32_t table_bits) {
  const std::uint32_t ring_bytes = ring_size(config.ring_bytes);
  auto& globals = *skeleton.rodata;
  globals.target_pid = static_cast<std::uint32_t>(config.pid);
  globals.target_tgid = names.tgid;
  globals.pid_namespace_device = names.device;
  globals.pid_namespace_inode = names.inode;
  globals.follow_forks = config.follow_forks;
  globals.fiber_stacks = config.fiber_stacks;
  globals.bottom_of_stack_address = config.domain_state + config.bottom_of_stack_offset;
  globals.domain_state_address = config.domain_state;
  globals.current_stack_offset = config.current_stack_offset;
  globals.stat_words_offset = config.stat_words_offset;
  globals.young_ptr_offset = config.young_ptr_offset;
  globals.young_end_offset = config.young_end_offset;
  globals.domain_id_offset = config.domain_id_offset;
  globals.user_callstack_begin = config.user_callstack.begin;
  globals.user_callstack_end = config.user_callstack.end;
  globals.track_interned_begin = config.track_interned.begin;
  globals.track_interned_end = config.track_interned.end;
  globals.table_bits = table_bits;
  globals.max_frames = std::clamp(config.max_frames, 1u, MEMPROF_MAX_FRAMES);
  globals.wakeup_bytes = ring_bytes / 4;
  // These fail only after load.
  (void)bpf_map__set_max_entries(skeleton.maps.events, ring_bytes);
  (void)bpf_map__set_max_entries(skeleton.maps.frame_table, 1u << table_bits);
  (void)bpf_program__set_autoload(skeleton.progs.thread_pointers,
                                  config.fiber_stacks && can_read_thread_pointers());
}

absl::StatusOr<Skeleton> load_skeleton(const KernelConfig& config, std::uint32_t table_bits) {
  ASSIGN_OR_RETURN(const OwnNames names, own_names(config.pid));
  Skeleton skeleton(memprof_bpf__open());
  if (skeleton == nullptr) return bpf_load_error(errno);
  configure(*skeleton, config, names, table_bits);
  // It needs more of the kernel than all others: only who asks for it must have that.
  (void)bpf_program__set_autoload(skeleton->progs.on_fork, config.follow_forks);
  if (const int error = memprof_bpf__load(skeleton.get()); error != 0)
    return bpf_load_error(-error);
  return skeleton;
}

absl::StatusOr<BpfLink> attach_uprobe(bpf_program* program, const char* what, int pid,
                                      const std::string& path, std::uint64_t offset,
                                      std::uint64_t semaphore_offset = 0) {
  LIBBPF_OPTS(bpf_uprobe_opts, options, .ref_ctr_offset = semaphore_offset);
  bpf_link* link = bpf_program__attach_uprobe_opts(program, pid, path.c_str(), offset, &options);
  if (link == nullptr)
    return bpf_attach_error(what, absl::StrFormat("%s+0x%x", path, offset), errno);
  return BpfLink(link);
}

absl::StatusOr<BpfLink> attach_tracepoint(bpf_program* program, const char* name) {
  bpf_link* link = bpf_program__attach_raw_tracepoint(program, name);
  if (link == nullptr) return bpf_attach_error("the lifecycle probe", name, errno);
  return BpfLink(link);
}

template <std::size_t N>
void sum_over_cpus(const bpf_map* map, int cpus, std::array<std::uint64_t, N>& sums) {
  std::vector<std::uint64_t> values(static_cast<std::size_t>(cpus));
  for (std::uint32_t key = 0; key < N; ++key) {
    if (bpf_map_lookup_elem(bpf_map__fd(map), &key, values.data()) != 0) continue;
    for (const std::uint64_t value : values) sums[key] += value;
  }
}

std::uint64_t load_position(const MappedPages& page) {
  auto* position = static_cast<std::uint64_t*>(page.data());
  return std::atomic_ref(*position).load(std::memory_order_acquire);
}

}  // namespace

// Members are destroyed in reverse order: probes first, batch before capture.
struct KernelSide::Parts {
  int pid = 0;
  int cpus = 1;
  Skeleton skeleton;
  MappedPages table;
  MappedPages consumer_page;  // the ring's positions, for its fill
  MappedPages producer_page;
  RingBuffer ring;
  BpfLink exec, thread_exit, fork, frametable, capture, observe, safe_point, batch;

  // Only while consume runs.
  const std::function<void(std::span<const std::byte>)>* fn = nullptr;
  int consumed = 0;

  std::span<std::uint64_t> slots() const {
    return {static_cast<std::uint64_t*>(table.data()), table.bytes() / sizeof(std::uint64_t)};
  }

  absl::Status map_memory(const KernelFrameTable& frames) {
    const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t bytes = frames.slots.size() * sizeof(std::uint64_t);
    const int ring_fd = bpf_map__fd(skeleton->maps.events);
    ASSIGN_OR_RETURN(table, MappedPages::map(bpf_map__fd(skeleton->maps.frame_table), bytes,
                                             PROT_READ | PROT_WRITE, 0, "the frame table"));
    ASSIGN_OR_RETURN(consumer_page,
                     MappedPages::map(ring_fd, page, PROT_READ, 0, "the ring buffer"));
    ASSIGN_OR_RETURN(producer_page,
                     MappedPages::map(ring_fd, page, PROT_READ, page, "the ring buffer"));
    std::copy(frames.slots.begin(), frames.slots.end(), slots().begin());
    return absl::OkStatus();
  }

  absl::Status open_ring() {
    ring.reset(
        ring_buffer__new(bpf_map__fd(skeleton->maps.events), &Parts::on_record, this, nullptr));
    if (ring == nullptr) return bpf_load_error(errno);
    return absl::OkStatus();
  }

  static int on_record(void* self, void* data, std::size_t bytes) {
    auto& parts = *static_cast<Parts*>(self);
    (*parts.fn)({static_cast<const std::byte*>(data), bytes});
    return ++parts.consumed < kConsumeRecords ? 0 : kStop;
  }
};

KernelSide::KernelSide(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
KernelSide::~KernelSide() { detach_probes(); }

absl::StatusOr<std::unique_ptr<KernelSide>> KernelSide::load(const KernelConfig& config,
                                                             const KernelFrameTable& table) {
  route_libbpf_messages();
  RETURN_IF_ERROR(check_config(config, table));
  auto parts = std::make_unique<Parts>();
  parts->pid = config.pid;
  parts->cpus = std::max(1, libbpf_num_possible_cpus());
  ASSIGN_OR_RETURN(parts->skeleton, load_skeleton(config, table.bits));
  RETURN_IF_ERROR(parts->map_memory(table));
  RETURN_IF_ERROR(parts->open_ring());
  return std::unique_ptr<KernelSide>(new KernelSide(std::move(parts)));
}

absl::Status KernelSide::attach_capture(const std::string& exe_path, std::uint64_t file_offset) {
  if (parts_->capture) return absl::OkStatus();
  const auto& programs = parts_->skeleton->progs;
  bpf_program* program =
      parts_->skeleton->rodata->fiber_stacks ? programs.capture_fibers : programs.capture;
  ASSIGN_OR_RETURN(parts_->capture,
                   attach_uprobe(program, "the capture probe", parts_->pid, exe_path, file_offset));
  return absl::OkStatus();
}

void KernelSide::detach_capture() { parts_->capture.reset(); }

absl::Status KernelSide::attach_observe(const std::string& exe_path, std::uint64_t file_offset) {
  const auto& programs = parts_->skeleton->progs;
  bpf_program* program =
      parts_->skeleton->rodata->fiber_stacks ? programs.observe_domains : programs.observe;
  ASSIGN_OR_RETURN(parts_->observe, attach_uprobe(program, "the allocation probe", parts_->pid,
                                                  exe_path, file_offset));
  return absl::OkStatus();
}

absl::Status KernelSide::attach_batch(const std::string& agent_path, std::uint64_t probe_offset,
                                      std::uint64_t semaphore_offset) {
  ASSIGN_OR_RETURN(parts_->batch,
                   attach_uprobe(parts_->skeleton->progs.batch, "the batch probe", parts_->pid,
                                 agent_path, probe_offset, semaphore_offset));
  return absl::OkStatus();
}

absl::Status KernelSide::attach_lifecycle() {
  auto& programs = parts_->skeleton->progs;
  ASSIGN_OR_RETURN(parts_->exec, attach_tracepoint(programs.on_exec, "sched_process_exec"));
  ASSIGN_OR_RETURN(parts_->thread_exit,
                   attach_tracepoint(programs.on_thread_exit, "sched_process_exit"));
  if (!parts_->skeleton->rodata->follow_forks) return absl::OkStatus();
  ASSIGN_OR_RETURN(parts_->fork, attach_tracepoint(programs.on_fork, "sched_process_fork"));
  return absl::OkStatus();
}

absl::Status KernelSide::attach_frametable(const std::string& exe_path, std::uint64_t file_offset) {
  ASSIGN_OR_RETURN(parts_->frametable,
                   attach_uprobe(parts_->skeleton->progs.frametable_registered,
                                 "the frame table probe", parts_->pid, exe_path, file_offset));
  return absl::OkStatus();
}

void KernelSide::detach_probes() {
  parts_->batch.reset();
  detach_safe_point();
  parts_->capture.reset();
  parts_->observe.reset();
  parts_->frametable.reset();
  parts_->exec.reset();
  parts_->thread_exit.reset();
  parts_->fork.reset();
}

absl::Status KernelSide::add_frames(const KernelFrameTable& table) {
  const auto slots = parts_->slots();
  return add_kernel_slots(slots, static_cast<std::uint32_t>(std::countr_zero(slots.size())),
                          table.slots);
}

absl::Status KernelSide::attach_safe_point(const std::string& exe_path, std::uint64_t file_offset) {
  disarm_safe_point();
  ASSIGN_OR_RETURN(parts_->safe_point,
                   attach_uprobe(parts_->skeleton->progs.safe_point, "the safe point probe",
                                 parts_->pid, exe_path, file_offset));
  return absl::OkStatus();
}

void KernelSide::arm_safe_point(int signal) {
  auto& globals = *parts_->skeleton->bss;
  std::atomic_ref(globals.armed_signal).store(static_cast<std::uint32_t>(signal));
  std::atomic_ref(globals.fired_tid).store(0);
  std::atomic_ref(globals.armed).store(1);
}

void KernelSide::disarm_safe_point() { std::atomic_ref(parts_->skeleton->bss->armed).store(0); }

bool KernelSide::safe_point_fired() const {
  return std::atomic_ref(parts_->skeleton->bss->fired_tid).load() != 0;
}

void KernelSide::detach_safe_point() {
  disarm_safe_point();
  parts_->safe_point.reset();
}

std::vector<std::uint64_t> KernelSide::thread_pointers() const {
  const bpf_program* program = parts_->skeleton->progs.thread_pointers;
  if (!bpf_program__autoload(program)) return {};
  return read_thread_pointers(program, parts_->pid);
}

int KernelSide::consume(const std::function<void(std::span<const std::byte>)>& fn) {
  parts_->fn = &fn;
  parts_->consumed = 0;
  (void)ring_buffer__consume(parts_->ring.get());
  parts_->fn = nullptr;
  return parts_->consumed;
}

int KernelSide::ring_epoll_fd() const { return ring_buffer__epoll_fd(parts_->ring.get()); }

KernelCounters KernelSide::counters() const {
  KernelCounters counters;
  sum_over_cpus(parts_->skeleton->maps.drops, parts_->cpus, counters.drops);
  sum_over_cpus(parts_->skeleton->maps.counts, parts_->cpus, counters.counts);
  // Consumer first: it never overtakes the producer.
  const std::uint64_t consumed = load_position(parts_->consumer_page);
  counters.ring_used_bytes = load_position(parts_->producer_page) - consumed;
  counters.ring_total_bytes = bpf_map__max_entries(parts_->skeleton->maps.events);
  return counters;
}

ProbeRuns KernelSide::probe_runs() const {
  const auto& programs = parts_->skeleton->progs;
  ProbeRuns runs;
  for (const bpf_program* program : {programs.capture, programs.capture_fibers, programs.batch,
                                     programs.frametable_registered, programs.safe_point}) {
    bpf_prog_info info{};
    std::uint32_t bytes = sizeof info;
    if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &bytes) != 0) continue;
    runs.hits += info.run_cnt;
    runs.program_ns += info.run_time_ns;
  }
  return runs;
}

}  // namespace memprofd
