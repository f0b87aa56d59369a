// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/counters.h"

namespace memprofd {

Counters& Counters::operator+=(const Counters& other) {
  allocated += other.allocated;
  promoted += other.promoted;
  live += other.live;
  resident += other.resident;
  for (int heap = 0; heap < kHeaps; ++heap) deallocated[heap] += other.deallocated[heap];
  allocated_objects += other.allocated_objects;
  live_objects += other.live_objects;
  deaths += other.deaths;
  forgotten += other.forgotten;
  ages += other.ages;
  late += other.late;
  return *this;
}

Estimate TargetCounters::all_allocated() const {
  Estimate all;
  for (const auto& of_heap : allocated) {
    for (const Estimate& of_source : of_heap) all += of_source;
  }
  return all;
}

double TargetCounters::gone_words() const { return all_allocated().words - live.words; }

}  // namespace memprofd
