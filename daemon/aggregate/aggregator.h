// SPDX-License-Identifier: Apache-2.0
// Turns the records of one target into counters and follows its blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/aggregate/alloc_class_table.h"
#include "daemon/aggregate/counters.h"
#include "daemon/aggregate/interval.h"
#include "daemon/aggregate/live_set.h"
#include "daemon/aggregate/observed_cells.h"
#include "daemon/aggregate/sample_event.h"
#include "daemon/aggregate/weight_scale.h"
#include "daemon/util/drops.h"
#include "daemon/util/ids.h"

namespace memprofd {

struct AggregatorLimits {
  std::size_t live_samples = 3'600'000;
  AllocClassLimits classes;
};

// A hit of observe mode: a block that stands for many words.
struct ObservedHit {
  CallstackId callstack;
  std::uint32_t thread = 0;
  std::uint16_t domain = 0;
  std::uint32_t size_words = 0;
  double weight_words = 0;  // of the hit, whatever the block's own size
};

// One session at a time: every block in the live set was sampled at rate().
class Aggregator {
 public:
  // drops must outlive the aggregator.
  Aggregator(const AggregatorLimits& limits, DropCounters& drops)
      : drops_(drops), classes_(limits.classes), live_(limits.live_samples) {}

  // Ends the session before it, if any. rate in samples per word, above 0.
  void begin_session(double rate);
  // Lets what is followed go, as a new session at the same rate. A record that was lost may have
  // told the end of any block that is followed, and nothing would tell it again: the block would
  // stay live for ever. Blocks allocated after the loss are followed again:
  //
  //   records    alloc A   alloc B   (2 lost)    alloc C   A dies (of no block that is followed)
  //   live             A       A B   nothing           C        C
  //
  // Takes time for what is followed, however many classes there are, and no new interval: losses
  // may come by the thousand.
  void begin_anew();
  // Blocks still followed are no longer live as far as we know: they leave the
  // live estimates, with the age that they had, and are counted as kFollowSessionEnd.
  void end_session();
  double rate() const { return rate_; }
  // Begun so far.
  std::uint64_t sessions() const { return sessions_; }

  // All three take a record of the matching kind, checked by valid_record().
  SampleEvent alloc(const memprof_record& record, CallstackId callstack, std::uint16_t domain = 0);
  SampleEvent promote(const memprof_record& record);
  SampleEvent dealloc(const memprof_record& record);

  // All that happened until then has been told: what is live has got as old as that. Records tell
  // the time too.
  void told_until(std::uint64_t time_ns) { now_ns_ = std::max(now_ns_, time_ns); }
  // How old what is live was when the target was last heard of, by ClassId; as long as by_class().
  // Looks at each live sample: some 20 ms for a million.
  std::vector<AgeCounts> live_ages() const;

  // Counts a hit as one sample at the rate of 1 / weight. What becomes of its block is
  // not known: it is not live.
  void observe(const ObservedHit& hit);

  // What happened since the last call, one call of use(interval, rate) for each
  // rate, in order.
  void cut(const std::function<void(const Interval&, double)>& use);
  // The same without an end: the next cut() tells it again.
  void peek(const std::function<void(const Interval&, double)>& use) const;

  const TargetCounters& totals() const { return totals_; }
  // By ClassId; may be shorter than the class table.
  const std::vector<Counters>& by_class() const { return by_class_; }
  const AllocClassTable& classes() const { return classes_; }
  const LiveSet& live() const { return live_; }
  // Counts hits since the last cut: what differs from history only by not being cut yet.
  std::size_t observed_bytes() const { return observed_.memory_bytes(); }

 private:
  struct ClosedInterval {
    Interval interval;
    double rate;
  };

  ClassId intern(const AllocClass& alloc_class);
  ClassId class_of(const memprof_record& record, CallstackId callstack, std::uint16_t domain);
  Counters& counters_of(ClassId alloc_class);
  void forget_live();
  std::uint64_t age_of(const LiveSample& sample) const;  // in ns

  DropCounters& drops_;
  AllocClassTable classes_;
  LiveSet live_;
  double rate_ = 1;
  std::uint64_t now_ns_ = 0;  // of the latest record
  std::uint64_t sessions_ = 0;
  TargetCounters totals_;
  std::vector<Counters> by_class_;
  Interval interval_;                   // at rate_
  std::vector<ClosedInterval> closed_;  // of the sessions before, since the last cut
  ObservedCells observed_;              // the same of hits, at their own weights
  std::mt19937_64 dice_;                // for the weight scale
};

}  // namespace memprofd
