// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/scratch_map.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <cerrno>
#include <map>

#include "bpf/events.h"
#include "daemon/attach/kernel/bpf_support.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {
namespace {

// A preempted walk keeps its slot.
std::uint32_t slots_needed() {
  return static_cast<std::uint32_t>(libbpf_num_possible_cpus()) + MEMPROF_SCRATCH_TRIES;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ScratchMap>> ScratchMap::of(std::uint32_t slot_bytes) {
  static Mutex mutex;
  static auto* const maps ABSL_PT_GUARDED_BY(mutex) =
      new std::map<std::uint32_t, std::weak_ptr<const ScratchMap>>;
  const MutexLock lock(mutex);
  std::weak_ptr<const ScratchMap>& kept = (*maps)[slot_bytes];
  if (auto map = kept.lock()) return map;
  const std::uint32_t slots = slots_needed();
  UniqueFd fd(::bpf_map_create(BPF_MAP_TYPE_ARRAY, "scratch", sizeof(std::uint32_t), slot_bytes,
                               slots, nullptr));
  if (!fd) return bpf_load_error(errno);
  auto map = std::make_shared<const ScratchMap>(ScratchMap{std::move(fd), slots});
  kept = map;
  return map;
}

}  // namespace memprofd
