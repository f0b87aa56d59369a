// SPDX-License-Identifier: Apache-2.0
// Pairs captured callstacks with alloc records.
//
// The runtime (OCaml 4.11 to 4.14) captures the callstack when it samples a block, and calls the
// alloc callback later. Captures arrive at once through the ring buffer, alloc records in batches;
// both have a thread and a time of the same clock. Each thread is paired separately, in time order:
// a record admits the captures that are not younger than itself, then takes one of them. A capture
// is one of:
//
//   direct     OCaml code allocated the block; the thread's next alloc record belongs to it.
//   postponed  No callback could run; the record comes when the thread next polls. One poll (a
//              "run") calls back all outstanding blocks in order of capture, without a capture in
//              between.
//   interned   Postponed, and shared by the 1..N sampled blocks of one unmarshalling: N consecutive
//              records of source marshal.
//
// Example of one thread, with time to the right. P and Q are postponed, D is direct, I is interned;
// p q d i i' are the records, which arrive with the batch:
//
//   captures  P     D        Q   I
//   records            d             p   q   i   i'
//                                   |---- run ----|
//
//   on arrival   waiting: P D Q I
//   d: admits P (postponed: P), D (direct: D); direct captures first   -> D
//   p: admits Q, I (postponed: P Q I)                                  -> P
//   q                                                                  -> Q
//   i: marshal, I is in front                                          -> I
//   i': marshal, no interned capture in front: I again                 -> I
//   Next capture: the run has ended; captures still outstanding are stale.
//
// In OCaml 4.11 all threads share one queue of postponed blocks, which any thread empties, so the
// process is paired as if it had one thread (as_one_thread).
//
// OCaml 5 calls back all outstanding blocks of a thread in order of capture, with those that OCaml
// code has just allocated last, and captures each block of an unmarshalling separately, so all
// captures are treated as postponed (in_order).
//
// No capture is outstanding when a thread or domain ends: module Thread polls last, and the agent
// calls back the remaining blocks of a domain.
//
// A record never gets a wrong callstack. If an event is lost, neither its thread nor its kind is
// known. From the time of the loss each thread pairs only direct captures, and its postponed
// records get no callstack, until a run that began after the loss has ended. A run leaves no
// capture outstanding, so the thread is aligned again.
//
//   captures  P     x(lost) Q        R
//   records             d      p   q     r
//   known             |lost|     run
//
//   Without this rule d would take P. Instead P is dropped at the loss and d p q get no callstack.
//   The capture R after q shows that the run has ended: r -> R.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/ingest/capture_pool.h"
#include "daemon/util/drops.h"
#include "daemon/util/ids.h"

namespace memprofd {

struct PairerLimits {
  std::size_t threads = 4096;
  std::size_t captures_per_thread = 65536;
  std::size_t captures = 262144;  // total of all threads, 24 bytes each
  // These are explained at the top of this file.
  bool as_one_thread = false;
  bool in_order = false;
};

class Pairer {
 public:
  // drops must outlive the pairer.
  Pairer(const PairerLimits& limits, DropCounters& drops);

  // Captures of one thread must arrive in time order.
  void on_capture(std::uint32_t tid, const Capture& capture);
  // Finds the callstack of an alloc record. Records of one thread must arrive in time order, each
  // after the captures that are older. Returns the unknown callstack if no capture belongs to the
  // record.
  CallstackId on_alloc(std::uint32_t buffer, const memprof_record& record);

  // Captures were lost somewhere after after_ns, the last before until_ns.
  void on_captures_lost(std::uint64_t after_ns, std::uint64_t until_ns);
  // Records were lost, all older than until_ns, the time of the next record. All older records have
  // been passed.
  void on_records_lost(std::uint64_t until_ns);
  // Records older than the exit may still arrive, until the end of a later batch.
  void on_thread_exit(std::uint32_t tid, std::uint64_t time_ns);
  // All records of that buffer that are older than the batch have been passed. The records of a
  // thread are all in one buffer.
  void on_batch_end(std::uint32_t buffer, std::uint64_t batch_time_ns);
  // A new session begins: nothing captured so far will be called back.
  void clear();

  std::size_t threads() const { return threads_.size(); }
  std::size_t captures() const { return pool_.size(); }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  struct Thread {
    CaptureList waiting;                  // not admitted yet
    CaptureList postponed;                // admitted, without a record yet
    std::optional<CallstackId> interned;  // callstack that marshal records of this run share
    std::uint64_t run_ns = 0;             // last record of a run that may still continue; 0: none
    std::uint64_t suspect_after_ns = kNever;  // records after this time follow a loss
    std::uint64_t exit_ns = 0;                // 0: the thread is running
    std::uint32_t buffer = MEMPROF_BUFFERS;   // buffer of its records; MEMPROF_BUFFERS: unknown
    bool misaligned = false;
  };

  // Records contain only 24 bits of the thread id.
  std::uint32_t key(std::uint32_t tid) const { return limits_.as_one_thread ? 0 : tid & 0xffffffu; }
  Thread* find(std::uint32_t tid);
  Thread* find_or_add(std::uint32_t tid);
  void forget_idle_threads();
  void refuse(Thread* thread, const Capture& capture);
  std::optional<CallstackId> admit(Thread& thread, std::uint64_t time_ns);
  void end_run(Thread& thread);
  CallstackId match_marshal(Thread& thread);
  CallstackId match_postponed(Thread& thread);
  CallstackId no_capture();
  void misalign(Thread& thread);
  void restart(Thread& thread);
  void drop_front(CaptureList& list);
  void drop_all(CaptureList& list);
  void drop_older(CaptureList& list, std::uint64_t time_ns);

  PairerLimits limits_;
  DropCounters& drops_;
  CapturePool pool_;
  absl::flat_hash_map<std::uint32_t, Thread> threads_;  // by tid; 24 bits as in records
  std::vector<std::uint32_t> exited_;                   // threads with an exit_ns
  std::uint64_t lost_until_ns_ = 0;  // no known loss at or after this time; 0: no loss
  bool refused_ = false;             // the last capture did not fit
  bool may_forget_ = true;           // forget_idle_threads() was not tried in this batch
};

}  // namespace memprofd
