// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/heap_points.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

absl::Status HeapPoints::want(std::uint32_t kinds) const {
  const WritableMemory& memory = memory_->quick();
  RETURN_IF_ERROR(memory.write_value(block_ + offsetof(memprof_snapshot, points_wanted), kinds));
  return memory.write_value(block_ + offsetof(memprof_snapshot, points_until_ns),
                            monotonic_ns() + kLeaseNs);
}

std::optional<WaitingPoint> HeapPoints::waiting() const {
  memprof_snapshot block{};
  if (!memory_->quick().read_value(block_, block).ok()) return std::nullopt;
  if (block.point == 0 || block.point == block.point_answered) return std::nullopt;
  return WaitingPoint{
      .number = block.point,
      .name = std::string(block.point_name, ::strnlen(block.point_name, sizeof block.point_name)),
      .at_exit = block.point_kind == MEMPROF_POINT_EXIT};
}

void HeapPoints::answer(const WaitingPoint& point, bool is_taken) const {
  const WritableMemory& memory = memory_->quick();
  (void)memory.write_value(block_ + offsetof(memprof_snapshot, point_taken),
                           std::uint32_t{is_taken});
  (void)memory.write_value(block_ + offsetof(memprof_snapshot, point_answered), point.number);
}

// Differs from the numbers of earlier watchers, except by a rare chance, in which no thread waits
// for it.
void SamplePoint::want() {
  const auto next = static_cast<std::uint32_t>(monotonic_ns() >> 10);
  number_ = std::max<std::uint32_t>(next == number_ ? next + 1 : next, 1);
  (void)memory_->quick().write_value(block_ + offsetof(memprof_sample_point, wanted), number_);
}

std::optional<int> SamplePoint::waiting() const {
  memprof_sample_point point{};
  if (!memory_->quick().read_value(block_, point).ok() || point.tid == 0) return std::nullopt;
  return static_cast<int>(point.tid);
}

void SamplePoint::release() const {
  constexpr std::uint32_t kNotWanted = 0;
  (void)memory_->quick().write_value(block_ + offsetof(memprof_sample_point, wanted), kNotWanted);
}

}  // namespace memprofd
