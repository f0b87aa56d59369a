// Turns the records of one target into counters and follows its blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/aggregate/counters.h"
#include "daemon/aggregate/live_set.h"
#include "daemon/util/drops.h"
#include "daemon/util/ids.h"

namespace memprofd {

// One session at a time: every block in the live set was sampled at rate().
class Aggregator {
 public:
  // drops must outlive the aggregator.
  Aggregator(std::size_t max_live_samples, DropCounters& drops)
      : drops_(drops), live_(max_live_samples) {}

  // Ends the session before it, if any. rate in samples per word, above 0.
  void begin_session(double rate);
  // Blocks still followed are no longer live as far as we know: they leave the
  // live estimates and are counted as kFollowSessionEnd.
  void end_session();
  double rate() const { return rate_; }

  // All three take a record of the matching kind, checked by valid_record().
  void alloc(const memprof_record& record, CallstackId callstack);
  // Both answer the callstack the block was allocated at; the unknown one for a
  // block that is not followed.
  CallstackId promote(const memprof_record& record);
  CallstackId dealloc(const memprof_record& record);

  const TargetCounters& totals() const { return totals_; }
  // By CallstackId; may be shorter than the callstack table.
  const std::vector<CallstackCounters>& by_callstack() const { return by_callstack_; }
  const LiveSet& live() const { return live_; }

 private:
  CallstackCounters& counters_of(CallstackId callstack);

  DropCounters& drops_;
  LiveSet live_;
  double rate_ = 1;
  TargetCounters totals_;
  std::vector<CallstackCounters> by_callstack_;
};

}  // namespace memprofd
