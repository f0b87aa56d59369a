// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/call_probes.h"

#include <bpf/bpf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bpf/hit_budget.h"
#include "calls.skel.h"
#include "daemon/attach/kernel/bpf_support.h"
#include "daemon/attach/kernel/mapped_pages.h"
#include "daemon/attach/kernel/probe_removal.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::size_t kCountsBytes = MEMPROF_CALL_FUNCTIONS * sizeof(memprof_call_counts);

template <typename T>
T load_acquire(const volatile T& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

absl::Status configure(calls_bpf& skeleton, const CallProbesConfig& config) {
  const ProcFs proc;
  ASSIGN_OR_RETURN(const ProcessStatus status, proc.status(config.pid));
  struct stat space {};
  if (::stat(proc.path(config.pid, "ns/pid").c_str(), &space) != 0)
    return process_error(config.pid, errno, "read the pid namespace");
  auto& constants = *skeleton.rodata;
  const int tgid = status.ns_pids.empty() ? config.pid : status.ns_pids.back();
  constants.target_tgid = static_cast<std::uint32_t>(tgid);
  // The device number in the kernel's encoding.
  constants.pid_namespace_device = std::uint64_t{major(space.st_dev)} << 20 | minor(space.st_dev);
  constants.pid_namespace_inode = space.st_ino;
  skeleton.bss->budget.most = config.max_hits;
  constants.fiber_stacks = config.fiber_stacks;
  constants.current_stack_offset = config.current_stack_offset;
  constants.fiber_end_offset = config.fiber_end_offset;
  constants.fiber_id_offset = config.fiber_id_offset;
  if (config.words) {
    constants.with_words = true;
    constants.stat_words_offset = config.words->stats;
    constants.young_end_offset = config.words->young_end;
    constants.allocated_words_offset = config.words->not_in_stats;
    constants.allocated_words_address = config.words->not_in_stats_here;
  }
  return absl::OkStatus();
}

}  // namespace

// Destroyed in reverse order: the probes first.
struct CallProbes::Parts {
  BpfOwner<calls_bpf, calls_bpf__destroy> skeleton;
  MappedPages counts;
  BpfLink exec;
  std::vector<UprobeLink> links;
  ProbeRemoval removal;
  bool with_time = false;

  bpf_program* program() const {
    return with_time ? skeleton->progs.time_call : skeleton->progs.count_call;
  }

  absl::Status load(const CallProbesConfig& config, UprobeKind kind);
  absl::Status attach(const CallProbesConfig& config, UprobeKind kind);
};

absl::Status CallProbes::Parts::load(const CallProbesConfig& config, UprobeKind kind) {
  skeleton.reset(calls_bpf__open());
  if (!skeleton) return bpf_load_error(errno);
  bpf_program* const unused =
      config.with_time ? skeleton->progs.count_call : skeleton->progs.time_call;
  (void)bpf_program__set_autoload(unused, false);
  with_time = config.with_time;
  choose_uprobe_kind(program(), kind);
  if (!with_time) {
    (void)bpf_map__set_max_entries(skeleton->maps.open_calls, 1);
    (void)bpf_map__set_max_entries(skeleton->maps.stacks, 1);
  }
  RETURN_IF_ERROR(configure(*skeleton, config));
  if (const int error = calls_bpf__load(skeleton.get()); error != 0) return bpf_load_error(-error);
  const int fd = bpf_map__fd(skeleton->maps.counts);
  ASSIGN_OR_RETURN(counts, MappedPages::map(fd, kCountsBytes, PROT_READ, 0, "the counts of calls"));
  return absl::OkStatus();
}

absl::Status CallProbes::Parts::attach(const CallProbesConfig& config, UprobeKind kind) {
  constexpr std::string_view kWhat = "the probes at functions";
  exec.reset(bpf_program__attach_raw_tracepoint(skeleton->progs.calls_exec, "sched_process_exec"));
  if (!exec) return bpf_attach_error(kWhat, "sched_process_exec", errno);
  if (kind == UprobeKind::kMultiLink) {
    ASSIGN_OR_RETURN(links.emplace_back(),
                     UprobeLink::attach_all(program(), config.pid, config.sites, kWhat));
    return absl::OkStatus();
  }
  for (std::size_t i = 0; i < config.sites.offsets.size(); ++i) {
    const ProbeSite site{.file = config.sites.file,
                         .offset = config.sites.offsets[i],
                         .cookie = config.sites.cookies[i]};
    ASSIGN_OR_RETURN(links.emplace_back(),
                     UprobeLink::attach(program(), kind, config.pid, site, kWhat));
  }
  return absl::OkStatus();
}

CallProbes::CallProbes(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
CallProbes::~CallProbes() { remove(); }

absl::StatusOr<std::unique_ptr<CallProbes>> CallProbes::attach(const CallProbesConfig& config) {
  const UprobeKind kind = best_uprobe_kind();
  const std::size_t sites = config.sites.offsets.size();
  if (kind == UprobeKind::kPerfEvent && sites > kMaxSingleCallProbes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "these functions take ", sites, " probes, and this kernel has no uprobe_multi links ",
        "(Linux 6.6): name functions that take at most ", kMaxSingleCallProbes));
  }
  RETURN_IF_ERROR(check_room_for_programs(config.pid));
  auto parts = std::make_unique<Parts>();
  RETURN_IF_ERROR(parts->load(config, kind));
  RETURN_IF_ERROR(parts->attach(config, kind));
  return std::unique_ptr<CallProbes>(new CallProbes(std::move(parts)));
}

void CallProbes::arm() {
  __atomic_store_n(&parts_->skeleton->bss->budget.armed, 1u, __ATOMIC_RELEASE);
}

void CallProbes::remove() {
  for (UprobeLink& link : parts_->links) parts_->removal.add(link);
  parts_->removal.add(parts_->exec);
  parts_->removal.wait();
  parts_->links.clear();
}

memprof_call_counts CallProbes::counts(std::uint32_t function) const {
  const auto* all = static_cast<const memprof_call_counts*>(parts_->counts.data());
  const memprof_call_counts& own = all[function];
  memprof_call_counts copy{};
  // Reads the ends first, so that every counted end also has a counted begin.
  copy.returned = load_acquire(own.returned);
  copy.tails = load_acquire(own.tails);
  copy.raised = load_acquire(own.raised);
  copy.lost = load_acquire(own.lost);
  copy.unmatched = load_acquire(own.unmatched);
  copy.total_ns = load_acquire(own.total_ns);
  copy.unsized = load_acquire(own.unsized);
  copy.words = load_acquire(own.words);
  for (std::size_t i = 0; i < std::size(own.buckets); ++i) {
    copy.buckets[i] = load_acquire(own.buckets[i]);
    copy.word_buckets[i] = load_acquire(own.word_buckets[i]);
  }
  copy.calls = load_acquire(own.calls);
  return copy;
}

std::uint64_t CallProbes::hits() const { return load_acquire(parts_->skeleton->bss->budget.hits); }
memprof_calls_off CallProbes::off() const {
  return static_cast<memprof_calls_off>(load_acquire(parts_->skeleton->bss->budget.off));
}
std::uint64_t CallProbes::off_ns() const {
  return load_acquire(parts_->skeleton->bss->budget.off_ns);
}

}  // namespace memprofd
