// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/lost_allocations.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace memprofd {

int LostAllocations::on_alloc(std::uint32_t buffer, std::uint64_t sample_id) {
  Buffer& of = buffers_[buffer];
  if (of.lost > 0) close_hole(of, sample_id);
  of.last_id = sample_id;
  if (owed_ < 1) {
    largest_hole_ = 0;
    return 0;
  }
  const double horizon = std::max(kMinHorizon, largest_hole_);
  const double wanted = 1 + owed_ / horizon;
  int log2 = std::min(kMaxLog2, static_cast<int>(std::ceil(std::log2(wanted))));
  while (std::exp2(log2) - 1 > owed_) --log2;
  owed_ -= std::exp2(log2) - 1;
  return log2;
}

void LostAllocations::close_hole(Buffer& of, std::uint64_t sample_id) {
  if (!of.last_id) {
    not_made_up_ += of.lost;
  } else if (sample_id > *of.last_id) {
    const std::uint64_t between = (sample_id - *of.last_id) / id_step_;
    const std::uint64_t missing = between > 1 ? std::min(between - 1, of.lost) : 0;
    owe(static_cast<double>(missing) * of.scale);
  }
  of.lost = 0;
  of.scale = 1;
}

void LostAllocations::owe(double samples) {
  const double more = std::min(samples, kMaxOwed - owed_);
  not_made_up_ += static_cast<std::uint64_t>(samples - more);
  owed_ += more;
  largest_hole_ = std::max(largest_hole_, more);
}

void LostAllocations::begin_session(double rate) {
  if (rate_ > 0) {
    const double change = rate / rate_;
    const double owed = std::exchange(owed_, 0);
    largest_hole_ *= change;
    owe(owed * change);
    for (Buffer& of : buffers_)
      of.scale = of.lost > 0 ? std::min(of.scale, 1.0) * std::min(1.0, change) : 1;
  }
  rate_ = rate;
}

void LostAllocations::end() {
  missing_at_the_end_ = missing();
  not_made_up_ += static_cast<std::uint64_t>(owed_);
  owed_ = 0;
  for (Buffer& of : buffers_) {
    not_made_up_ += lost_at_the_end(of);
    of = {};
  }
}

double LostAllocations::missing() const {
  double missing = missing_at_the_end_ + owed_;
  for (const Buffer& of : buffers_) {
    if (of.lost > 0) missing += static_cast<double>(lost_at_the_end(of)) * of.scale;
  }
  return std::min(missing, kMaxOwed);
}

std::uint64_t LostAllocations::lost_at_the_end(const Buffer& of) const {
  if (!of.last_id || !of.sampled) return of.lost;
  const std::uint64_t seen = *of.last_id / id_step_;
  return *of.sampled > seen ? std::min(*of.sampled - seen, of.lost) : 0;
}

}  // namespace memprofd
