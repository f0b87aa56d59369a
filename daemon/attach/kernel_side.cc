#include "daemon/attach/kernel_side.h"

#include <bpf/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <vector>

#include "absl/strings/str_format.h"
#include "daemon/attach/bpf_support.h"
#include "daemon/attach/kernel_object.h"
#include "daemon/attach/kernel_table.h"
#include "daemon/attach/mapped_pages.h"
#include "daemon/attach/probe_removal.h"
#include "daemon/attach/thread_pointers.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::uint32_t kMaxTableBits = 28;
// Tells consume's callback to stop libbpf's loop.
constexpr int kStop = -ECANCELED;

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

enum class KernelSide::Probe : std::size_t { kCapture, kObserve, kBatch, kFrametable };

// Members are destroyed in reverse order: probes first.
struct KernelSide::Parts {
  static constexpr std::size_t kProbes = 4;

  int pid = 0;
  int cpus = 1;
  UprobeKind uprobe_kind = UprobeKind::kMultiLink;
  bool fiber_stacks = false;
  KernelObject object;
  MappedPages table;
  MappedPages consumer_page;  // the ring's positions, for its fill
  MappedPages producer_page;
  RingBuffer ring;
  std::array<BpfLink, 3> tracepoints;  // exec, end of a thread, fork
  std::array<UprobeLink, kProbes> probes;
  ProbeRemoval removal;

  // Only while consume runs.
  const std::function<void(std::span<const std::byte>)>* fn = nullptr;
  int consumed = 0;

  UprobeLink& probe(Probe which) { return probes[static_cast<std::size_t>(which)]; }

  bpf_program* program(Probe which) const {
    const auto& programs = object.main->progs;
    switch (which) {
      case Probe::kCapture:
        return fiber_stacks ? programs.capture_fibers : programs.capture;
      case Probe::kObserve:
        return fiber_stacks ? programs.observe_domains : programs.observe;
      case Probe::kBatch:
        return programs.batch;
      case Probe::kFrametable:
        return programs.frametable_registered;
    }
    return nullptr;
  }

  std::span<std::uint64_t> slots() const {
    return {static_cast<std::uint64_t*>(table.data()), table.bytes() / sizeof(std::uint64_t)};
  }

  absl::Status map_memory(const KernelFrameTable& frames) {
    const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t bytes = frames.slots.size() * sizeof(std::uint64_t);
    const int ring_fd = bpf_map__fd(object.main->maps.events);
    ASSIGN_OR_RETURN(table, MappedPages::map(bpf_map__fd(object.main->maps.frame_table), bytes,
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
        ring_buffer__new(bpf_map__fd(object.main->maps.events), &Parts::on_record, this, nullptr));
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
  parts->uprobe_kind = config.uprobes;
  parts->fiber_stacks = config.fiber_stacks;
  ASSIGN_OR_RETURN(parts->object, KernelObject::load(config, table.bits));
  RETURN_IF_ERROR(parts->map_memory(table));
  RETURN_IF_ERROR(parts->open_ring());
  return std::unique_ptr<KernelSide>(new KernelSide(std::move(parts)));
}

absl::Status KernelSide::attach(Probe probe, const ProbeSite& site) {
  static constexpr std::array<const char*, Parts::kProbes> kNames = {
      "the capture probe", "the allocation probe", "the batch probe", "the frame table probe"};
  UprobeLink& link = parts_->probe(probe);
  parts_->removal.add(link);
  ASSIGN_OR_RETURN(
      link, UprobeLink::attach(parts_->program(probe), parts_->uprobe_kind, parts_->pid, site,
                               kNames[static_cast<std::size_t>(probe)]));
  return absl::OkStatus();
}

absl::Status KernelSide::attach_capture(const ProbeSite& site) {
  return parts_->probe(Probe::kCapture) ? absl::OkStatus() : attach(Probe::kCapture, site);
}

void KernelSide::detach_capture() { parts_->removal.add(parts_->probe(Probe::kCapture)); }

absl::Status KernelSide::attach_observe(const ProbeSite& site) {
  return attach(Probe::kObserve, site);
}

absl::Status KernelSide::attach_batch(const ProbeSite& site) { return attach(Probe::kBatch, site); }

absl::Status KernelSide::attach_lifecycle() {
  const auto& programs = parts_->object.main->progs;
  auto& [exec, thread_exit, fork] = parts_->tracepoints;
  ASSIGN_OR_RETURN(exec, attach_tracepoint(programs.on_exec, "sched_process_exec"));
  ASSIGN_OR_RETURN(thread_exit, attach_tracepoint(programs.on_thread_exit, "sched_process_exit"));
  if (!parts_->object.main->rodata->follow_forks) return absl::OkStatus();
  ASSIGN_OR_RETURN(fork,
                   attach_tracepoint(parts_->object.tasks->progs.on_fork, "sched_process_fork"));
  return absl::OkStatus();
}

absl::Status KernelSide::attach_frametable(const ProbeSite& site) {
  return attach(Probe::kFrametable, site);
}

void KernelSide::begin_detach() {
  for (UprobeLink& link : parts_->probes) parts_->removal.add(link);
  for (BpfLink& link : parts_->tracepoints) parts_->removal.add(link);
}

void KernelSide::detach_probes() {
  begin_detach();
  parts_->removal.wait();
}

absl::Status KernelSide::add_frames(const KernelFrameTable& table) {
  const auto slots = parts_->slots();
  return add_kernel_slots(slots, static_cast<std::uint32_t>(std::countr_zero(slots.size())),
                          table.slots);
}

std::vector<std::uint64_t> KernelSide::thread_pointers() const {
  if (parts_->object.tasks == nullptr) return {};
  const bpf_program* program = parts_->object.tasks->progs.thread_pointers;
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
  sum_over_cpus(parts_->object.main->maps.drops, parts_->cpus, counters.drops);
  sum_over_cpus(parts_->object.main->maps.counts, parts_->cpus, counters.counts);
  // Consumer first: it never overtakes the producer.
  const std::uint64_t consumed = load_position(parts_->consumer_page);
  counters.ring_used_bytes = load_position(parts_->producer_page) - consumed;
  counters.ring_total_bytes = bpf_map__max_entries(parts_->object.main->maps.events);
  return counters;
}

ProbeRuns KernelSide::probe_runs() const {
  ProbeRuns runs;
  for (std::size_t i = 0; i < Parts::kProbes; ++i) {
    const bpf_program* program = parts_->program(static_cast<Probe>(i));
    bpf_prog_info info{};
    std::uint32_t bytes = sizeof info;
    if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &bytes) != 0) continue;
    runs.hits += info.run_cnt;
    runs.program_ns += info.run_time_ns;
  }
  return runs;
}

}  // namespace memprofd
