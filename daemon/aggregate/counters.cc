#include "daemon/aggregate/counters.h"

namespace memprofd {

CallstackCounters& CallstackCounters::operator+=(const CallstackCounters& other) {
  allocated += other.allocated;
  promoted += other.promoted;
  live += other.live;
  for (int heap = 0; heap < kHeaps; ++heap) deallocated[heap] += other.deallocated[heap];
  lifetime += other.lifetime;
  return *this;
}

}  // namespace memprofd
