// SPDX-License-Identifier: Apache-2.0
// Converts the records of one target into counters and tracks its blocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/aggregate/alloc_class_table.h"
#include "daemon/aggregate/counters.h"
#include "daemon/aggregate/interval.h"
#include "daemon/aggregate/live_set.h"
#include "daemon/aggregate/native_residency.h"
#include "daemon/aggregate/observed_cells.h"
#include "daemon/aggregate/sample_event.h"
#include "daemon/aggregate/tally.h"
#include "daemon/aggregate/untracked.h"
#include "daemon/util/drops.h"
#include "daemon/util/ids.h"

namespace memprofd {

struct AggregatorLimits {
  std::size_t live_samples = 3'600'000;
  AllocClassLimits classes;
  std::uint64_t sample_id_step = 1;  // difference between consecutive numbers of a buffer's blocks
  SharedBudget memory;               // charged for the live set; null: no limit
};

// A sample of observe mode: one block that represents many words.
struct ObservedHit {
  CallstackId callstack;
  std::uint32_t thread = 0;
  std::uint16_t domain = 0;
  std::uint32_t size_words = 0;
  double weight_words = 0;  // words that the hit represents, independent of the block's own size
};

// A sampled block of the native heap.
struct TrackedNativeBlock {
  std::uint64_t number = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t n_samples = 0;
  std::uint32_t thread = 0;
};

// Live memory of one session by age and class.
struct LiveOfSession {
  double rate = 0;
  std::vector<std::pair<ClassId, AgeCounts>> ages;
};

// Sums the ages over all sessions, indexed by ClassId, for this number of classes.
std::vector<AgeCounts> ages_by_class(std::span<const LiveOfSession> live, std::size_t classes);

// A class of another aggregator with its counters.
struct KeptClass {
  ClassId id;
  AllocClass alloc_class;
  Counters counters;
};

// Counts each block at the rate of the session in which it was sampled. If the runtime continues to
// report events of earlier sessions (OCaml 5), blocks of several sessions are followed at once:
//
//   session   1 at 1e-3        2 at 1e-4               17
//   records   alloc A          alloc B   A dies        (as many sessions as are followed)
//   live      A 1e3 words      + B 1e4   B             no block of session 1 any more
//   flows     1e-3: A born     1e-4: B born; 1e-3: A dies
class Aggregator {
 public:
  // drops must outlive the aggregator.
  Aggregator(const AggregatorLimits& limits, DropCounters& drops)
      : drops_(drops),
        classes_(limits.classes),
        live_(limits.live_samples, limits.memory, limits.sample_id_step),
        untracked_(limits.sample_id_step) {}

  // Continues from another aggregator of the same program; call it before the first session. None
  // of the other's blocks are followed any more, so its live memory counts as forgotten at its age.
  // classes: ordered by id. sessions: the other's sessions().
  void resume(const TargetCounters& totals, std::span<const KeptClass> classes,
              std::span<const LiveOfSession> live, std::uint64_t sessions);
  // Ends the previous session, if any, and forgets followed blocks. rate: samples per word, above
  // 0.
  void begin_session(double rate) { begin_session(rate, running().generation + 1, false); }
  // Begins a session of that generation. With `follow`, blocks sampled in the last kSessions - 1
  // generations before it remain followed.
  void begin_session(double rate, std::uint32_t generation, bool follow);
  // True if blocks of that session are or may be followed: it is running, or ended recently enough.
  bool follows(std::uint32_t generation) const;
  // Forgets the blocks of all sessions before this generation.
  void forget_before(std::uint32_t generation);
  // Forgets followed blocks, like a new session at the same rate. A lost record may have been the
  // end of any followed block, which would then stay live forever. Blocks allocated after the loss
  // are followed:
  //
  //   records    alloc A   alloc B   (2 lost)    alloc C   A dies (no longer followed)
  //   live             A       A B   nothing           C        C
  //
  // The cost depends on the number of followed blocks, not of classes. Begins no new interval,
  // because there may be thousands of losses.
  void start_over();
  static constexpr std::uint64_t kForgottenNs = 600'000'000'000;
  double rate() const { return running().rate; }
  // Time of the last event, on the clock of records.
  std::uint64_t now_ns() const { return now_ns_; }
  // Number of times that followed blocks were forgotten, or that a session began without following
  // earlier blocks.
  std::uint64_t sessions() const { return forgettings_; }

  // These three take a record of the matching kind that passed valid_record(). stands_for_log2 is
  // that of the class (AllocClass). The lost blocks that one block represents may be dead already,
  // so they do not count as live: of the blocks that represent 2^n, one in 2^n is followed.
  SampleEvent alloc(const memprof_record& record, CallstackId callstack, std::uint16_t domain = 0,
                    int stands_for_log2 = 0);
  SampleEvent promote(const memprof_record& record);
  SampleEvent dealloc(const memprof_record& record);

  // The native heap has its own sessions, blocks and numbers. Begins a session with that rate in
  // samples per word, and forgets followed native blocks.
  void begin_native_session(double rate);
  SampleEvent native_alloc(const TrackedNativeBlock& block, CallstackId callstack);
  // Returns nullopt if a residency scan has already reported the block's end.
  std::optional<SampleEvent> native_free(std::uint64_t number, std::uint64_t time_ns,
                                         std::uint32_t thread);
  // Call this when the end of a block may have been lost.
  void forget_native_blocks();
  // The live native blocks; and the results of scanning their pages, for which it returns the end
  // events of blocks that are gone.
  std::vector<NativeBlock> native_blocks() const { return residence_.all(); }
  std::vector<SampleEvent> note_native_blocks(const ResidencyScan& scan);

  // Frees the memory of followed blocks. They must not be queried afterwards.
  void release_live() { live_.clear(); }

  // Counts words that were allocated between two sessions, when no samples were taken.
  void unsampled(std::uint64_t words) { totals_.unsampled_words += words; }

  // Declares that all events until then have arrived, which sets the time for ages of live memory.
  // Records also advance the time.
  void advance_clock_to(std::uint64_t time_ns) { now_ns_ = std::max(now_ns_, time_ns); }
  // Ages of live memory at the last event of the target, by session. Contains only sessions with
  // live memory. Visits each live sample: some 20 ms for a million.
  std::vector<LiveOfSession> live_by_session() const;

  // Counts a hit as one sample at a rate of 1 / weight. Its block is not live, because its fate is
  // unknown.
  void observe(const ObservedHit& hit);

  // Ends the interval and reports its events: calls use(interval, rate) once for each rate, in
  // order.
  void close_interval(const std::function<void(const Interval&, double)>& use);
  // Reports the same without ending the interval; the next close_interval() reports it again.
  void peek(const std::function<void(const Interval&, double)>& use) const;

  const TargetCounters& totals() const { return totals_; }
  // Indexed by ClassId; may be shorter than the class table. Valid until any other function is
  // called.
  const std::vector<Counters>& by_class() const;
  const AllocClassTable& classes() const { return classes_; }
  const LiveSet& live() const { return live_; }
  // Size of the hits counted since the interval began, which history does not contain yet.
  std::size_t observed_bytes() const { return observed_.memory_bytes(); }

 private:
  static constexpr std::uint32_t kSessions = LiveSample::kSessions;
  static_assert(kSessions == MEMPROF_FOLLOWED_SESSIONS);

  struct Session {
    std::uint32_t generation = 0;
    double rate = 1;
    SampleWeight of_word = weight_of_word(1);  // at this session's rate
    bool followed = false;                     // blocks of this session are or may be followed
    std::size_t live = 0;                      // number of its live blocks
    mutable Interval interval;                 // events of its blocks, except those in tallies
    mutable Tallies tallies;

    void set_rate(double per_word);
    SampleWeight weight_of(const AllocClass& of) const {
      return of.size.fine() || of.stands_for_log2 != 0 ? of.weight(rate) : of_word;
    }
  };
  struct ClosedInterval {
    Interval interval;
    double rate;
  };

  ClassId intern(const AllocClass& alloc_class);
  ClassId class_of(const memprof_record& record, CallstackId callstack, std::uint16_t domain,
                   int stands_for_log2);
  bool may_follow(const AllocClass& of);
  void count_unknown(SampleId id);
  Counters& counters_of(ClassId alloc_class) const;
  const Session& running() const { return sessions_[running_]; }
  static bool of_c(const LiveSample& sample) { return sample.session() == LiveSample::kCSession; }
  Session& session_of(const LiveSample& sample) {
    return of_c(sample) ? native_session_ : sessions_[sample.session()];
  }
  const Session& session_of(const LiveSample& sample) const {
    return of_c(sample) ? native_session_ : sessions_[sample.session()];
  }
  LiveSet::Inserted follow(SampleId id, const LiveSample& sample, std::uint64_t n, Tally& tally);
  std::uint64_t die(const LiveSample& sample, Heap heap, std::uint64_t time_ns);
  // Adds tallies to counters and intervals. Runs before these are read and before any other change
  // of the live set. Has no visible effect.
  void settle() const;
  void settle(const Session& session) const;
  // Forgets the blocks for which is_gone() is true; returns true if there were any.
  template <typename Fn>
  bool forget(Fn is_gone);
  bool forget_all();
  void forget_block(const LiveSample& sample);
  void note_forgotten();
  static SampleEvent event_of(const memprof_record& record, const LiveSample& sample);
  SampleEvent end_native_block(std::uint64_t number, const LiveSample& sample,
                               const memprof_record& freed);
  SampleWeight resident_weight(const LiveSample& sample, float share) const;
  void close(Session& session);
  std::uint64_t age_of(const LiveSample& sample) const;  // in ns

  DropCounters& drops_;
  AllocClassTable classes_;
  LiveSet live_;
  Untracked untracked_;
  std::uint64_t now_ns_ = 0;  // time of the latest record
  std::uint64_t forgettings_ = 0;
  TargetCounters totals_;
  mutable std::vector<Counters> by_class_;
  std::array<Session, kSessions> sessions_;  // indexed by generation modulo kSessions
  std::uint32_t running_ = 0;                // index in sessions_
  Session native_session_;                   // session of the native heap
  NativeResidency residence_;                // resident bytes of native blocks
  std::vector<ClosedInterval> closed_;  // intervals of earlier sessions within the current interval
  ObservedCells observed_;              // hits of observe mode by weight
  // Source of the random choices for the weight scale and for followed blocks.
  std::mt19937_64 dice_;
};

}  // namespace memprofd
