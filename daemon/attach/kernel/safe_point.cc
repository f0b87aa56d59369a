// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/safe_point.h"

#include <bpf/bpf.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/attach/kernel/bpf_support.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/clock.h"
#include "daemon/util/open_files.h"
#include "daemon/util/status_macros.h"
#include "safe_point.skel.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

std::uint64_t in_ns(milliseconds time) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(time).count());
}

// Atomic access to a word that the BPF program shares.
template <typename T>
std::atomic_ref<T> shared(volatile T& word) {
  return std::atomic_ref<T>(const_cast<T&>(word));
}

}  // namespace

// Destroyed in reverse order: the probe first.
struct SafePoint::Parts {
  BpfOwner<safe_point_bpf, safe_point_bpf__destroy> skeleton;
  RingBuffer hits;
  UprobeLink probe;
  std::optional<memprof_safe_point_hit> hit;
  unsigned next_skipped = 0;

  auto& words() const { return *skeleton->bss; }
  std::atomic_ref<__u32> gate() const { return shared(words().gate); }

  static int on_hit(void* self, void* data, std::size_t bytes) {
    memprof_safe_point_hit& hit = static_cast<Parts*>(self)->hit.emplace();
    if (bytes >= sizeof hit) std::memcpy(&hit, data, sizeof hit);
    return 0;
  }
};

SafePoint::SafePoint(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
SafePoint::~SafePoint() { close(); }

absl::StatusOr<std::unique_ptr<SafePoint>> SafePoint::attach(int pid, const ProbeSite& site) {
  RETURN_IF_ERROR(check_room_for_programs(pid));
  const ProcFs proc;
  ASSIGN_OR_RETURN(const ProcessStatus status, proc.status(pid));
  struct stat space {};
  if (::stat(proc.path(pid, "ns/pid").c_str(), &space) != 0)
    return process_error(pid, errno, "read the pid namespace");
  auto parts = std::make_unique<Parts>();
  parts->skeleton.reset(safe_point_bpf__open());
  if (!parts->skeleton) return bpf_load_error(errno);
  bpf_program* program = parts->skeleton->progs.safe_point;
  const UprobeKind kind = best_uprobe_kind();
  choose_uprobe_kind(program, kind);
  auto& constants = *parts->skeleton->rodata;
  const int tgid = status.ns_pids.empty() ? pid : status.ns_pids.back();
  constants.target_tgid = static_cast<std::uint32_t>(tgid);
  // The device number in the kernel's encoding.
  constants.pid_namespace_device = std::uint64_t{major(space.st_dev)} << 20 | minor(space.st_dev);
  constants.pid_namespace_inode = space.st_ino;
  if (const int error = safe_point_bpf__load(parts->skeleton.get()); error != 0)
    return bpf_load_error(-error);
  parts->hits.reset(ring_buffer__new(bpf_map__fd(parts->skeleton->maps.hits), &Parts::on_hit,
                                     parts.get(), nullptr));
  if (!parts->hits) return bpf_load_error(errno);
  ASSIGN_OR_RETURN(parts->probe,
                   UprobeLink::attach(program, kind, pid, site, "the safe point probe"));
  return std::unique_ptr<SafePoint>(new SafePoint(std::move(parts)));
}

void SafePoint::watch() {
  close();
  (void)ring_buffer__consume(parts_->hits.get());
  parts_->hit.reset();
  auto turn = shared(parts_->words().turn);
  turn.store(turn.load() + 1);
  parts_->gate().store(MEMPROF_GATE_WATCHED);
}

std::optional<memprof_safe_point_hit> SafePoint::wait_hit(int cancel_fd, milliseconds patience) {
  std::array<pollfd, 2> waits = {pollfd{ring_buffer__epoll_fd(parts_->hits.get()), POLLIN, 0},
                                 pollfd{cancel_fd, POLLIN, 0}};
  (void)::poll(waits.data(), waits.size(), static_cast<int>(patience.count()));
  (void)ring_buffer__consume(parts_->hits.get());
  return std::exchange(parts_->hit, std::nullopt);
}

void SafePoint::open(const memprof_safe_point_hit& hit, int signal, milliseconds lease) {
  auto& words = parts_->words();
  shared(words.open_signal).store(static_cast<std::uint32_t>(signal));
  shared(words.open_tid).store(hit.tid);
  renew(lease);
  parts_->gate().store(MEMPROF_GATE_OPEN);
}

void SafePoint::renew(milliseconds lease) {
  shared(parts_->words().open_until_ns).store(monotonic_ns() + in_ns(lease));
}

// bpf/safe_point.bpf.c explains the order.
bool SafePoint::close() {
  const bool fired = parts_->gate().exchange(MEMPROF_GATE_CLOSED) == MEMPROF_GATE_FIRED;
  while (shared(parts_->words().firing).load() != 0) {  // for some microseconds
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return parts_->gate().exchange(MEMPROF_GATE_CLOSED) == MEMPROF_GATE_FIRED || fired;
}

void SafePoint::skip(const memprof_safe_point_hit& hit) {
  auto& words = parts_->words();
  shared(words.skipped[parts_->next_skipped++ % MEMPROF_SKIPPED_THREADS]).store(hit.tid);
}

void SafePoint::skip_none() {
  for (auto& tid : parts_->words().skipped) shared(tid).store(0);
}

}  // namespace memprofd
