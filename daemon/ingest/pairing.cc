// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/pairing.h"

#include <algorithm>

namespace memprofd {

Pairer::Pairer(const PairerLimits& limits, DropCounters& drops)
    : limits_(limits), drops_(drops), pool_(limits.captures) {}

void Pairer::on_capture(std::uint32_t tid, const Capture& given) {
  Capture capture = given;
  if (limits_.in_order) capture.direct = capture.interned = false;
  if (refused_) lost_until_ns_ = std::max(lost_until_ns_, capture.time_ns);
  Thread* thread = find_or_add(key(tid));
  const bool room = thread != nullptr &&
                    thread->waiting.size + thread->postponed.size < limits_.captures_per_thread;
  refused_ = !room || !pool_.push(thread->waiting, capture);
  if (refused_) refuse(thread, capture);
}

// A capture that finds no room counts as lost between its own time and that of the next capture,
// which is younger than the record of a direct one.
void Pairer::refuse(Thread* thread, const Capture& capture) {
  drops_.add(Drop::kPairQueueFull);
  lost_until_ns_ = std::max(lost_until_ns_, capture.time_ns);
  if (thread == nullptr) return;
  const std::uint64_t before = capture.time_ns - (capture.time_ns > 0);
  thread->suspect_after_ns = std::min(thread->suspect_after_ns, before);
}

CallstackId Pairer::on_alloc(std::uint32_t buffer, const memprof_record& record) {
  Thread* thread = find(key(MEMPROF_ORIGIN_TID(record.origin)));
  if (thread == nullptr) return no_capture();
  thread->buffer = buffer;
  if (thread->exit_ns != 0 && record.time_ns > thread->exit_ns) restart(*thread);

  const auto direct = admit(*thread, record.time_ns);
  const auto source = MEMPROF_ORIGIN_SOURCE(record.origin);
  if (direct) {
    if (source == MEMPROF_SOURCE_NORMAL &&
        MEMPROF_ORIGIN_KIND(record.origin) == MEMPROF_ALLOC_MINOR) {
      return *direct;
    }
    drops_.add(Drop::kPairUnusedCapture);
  }
  thread->run_ns = record.time_ns;
  return source == MEMPROF_SOURCE_MARSHAL && !limits_.in_order ? match_marshal(*thread)
                                                               : match_postponed(*thread);
}

// Moves captures that are not younger than a record to the place where the record finds them;
// returns the direct one, if any.
std::optional<CallstackId> Pairer::admit(Thread& thread, std::uint64_t time_ns) {
  if (thread.suspect_after_ns < time_ns) misalign(thread);
  std::optional<CallstackId> direct;
  while (thread.waiting.size > 0 && pool_.front(thread.waiting).time_ns <= time_ns) {
    end_run(thread);
    if (pool_.front(thread.waiting).direct) {
      if (direct) drops_.add(Drop::kPairUnusedCapture);
      direct = pool_.pop(thread.waiting).callstack;
    } else if (thread.misaligned) {
      drop_front(thread.waiting);
    } else {
      pool_.move_front(thread.waiting, thread.postponed);
    }
  }
  return direct;
}

// A capture after the last record of a run ends the run, which has reported everything that was
// outstanding when it began.
void Pairer::end_run(Thread& thread) {
  if (thread.run_ns == 0) return;
  drop_older(thread.postponed, thread.run_ns);
  if (thread.run_ns > lost_until_ns_) thread.misaligned = false;
  thread.interned.reset();
  thread.run_ns = 0;
}

CallstackId Pairer::match_marshal(Thread& thread) {
  const bool interned_in_front =
      thread.postponed.size > 0 && pool_.front(thread.postponed).interned;
  if (!interned_in_front) {
    return thread.interned ? *thread.interned : no_capture();
  }
  // Two unmarshallings in one run: it is unknown where the records of the first one end.
  if (thread.interned) return no_capture();
  thread.interned = pool_.pop(thread.postponed).callstack;
  return *thread.interned;
}

// The front capture belongs to the record, even if it is marked as interned: the kernel side may
// mistake remains of an earlier call on the stack for an unmarshalling, and a real one has a record
// of its own first. But after an unmarshalling the next record may have no capture left.
CallstackId Pairer::match_postponed(Thread& thread) {
  while (thread.interned && thread.postponed.size > 0 && pool_.front(thread.postponed).interned) {
    drop_front(thread.postponed);
  }
  thread.interned.reset();
  return thread.postponed.size > 0 ? pool_.pop(thread.postponed).callstack : no_capture();
}

CallstackId Pairer::no_capture() {
  drops_.add(Drop::kPairNoCapture);
  return CallstackId();
}

void Pairer::on_captures_lost(std::uint64_t after_ns, std::uint64_t until_ns) {
  lost_until_ns_ = std::max(lost_until_ns_, until_ns);
  for (auto& [tid, thread] : threads_) {
    thread.suspect_after_ns = std::min(thread.suspect_after_ns, after_ns);
  }
}

void Pairer::on_records_lost(std::uint64_t until_ns) {
  lost_until_ns_ = std::max(lost_until_ns_, until_ns);
  for (auto& [tid, thread] : threads_) {
    misalign(thread);
    drop_older(thread.waiting, until_ns);
  }
}

void Pairer::misalign(Thread& thread) {
  drop_all(thread.postponed);
  thread.suspect_after_ns = kNever;
  thread.interned.reset();
  thread.run_ns = 0;
  thread.misaligned = true;
}

void Pairer::on_thread_exit(std::uint32_t tid, std::uint64_t time_ns) {
  if (limits_.as_one_thread) return;
  Thread* thread = find(key(tid));
  if (thread == nullptr) return;
  if (thread->exit_ns == 0) {
    exited_.push_back(key(tid));
  } else {
    restart(*thread);  // the id was used twice within one batch
  }
  thread->exit_ns = std::max<std::uint64_t>(time_ns, 1);
}

void Pairer::on_batch_end(std::uint32_t buffer, std::uint64_t batch_time_ns) {
  may_forget_ = true;
  std::erase_if(exited_, [&](std::uint32_t tid) {
    Thread* thread = find(tid);
    if (thread == nullptr || thread->exit_ns == 0) return true;
    if (thread->exit_ns >= batch_time_ns) return false;
    if (thread->buffer != buffer && thread->buffer != MEMPROF_BUFFERS) return false;
    restart(*thread);
    if (thread->waiting.size == 0) threads_.erase(tid);
    return true;
  });
}

// Another thread has, or will have, the id of one that exited.
void Pairer::restart(Thread& thread) {
  drop_all(thread.postponed);
  drop_older(thread.waiting, thread.exit_ns);
  const bool lost_since = lost_until_ns_ > thread.exit_ns;
  const CaptureList waiting = thread.waiting;
  thread = Thread();
  thread.waiting = waiting;
  thread.misaligned = lost_since;
}

void Pairer::clear() {
  drops_.add(Drop::kPairUnusedCapture, pool_.size());
  threads_.clear();
  exited_.clear();
  pool_.reset();
  lost_until_ns_ = 0;
  refused_ = false;
}

Pairer::Thread* Pairer::find(std::uint32_t tid) {
  const auto it = threads_.find(tid);
  return it == threads_.end() ? nullptr : &it->second;
}

Pairer::Thread* Pairer::find_or_add(std::uint32_t tid) {
  if (Thread* thread = find(tid)) return thread;
  if (threads_.size() >= limits_.threads) forget_idle_threads();
  if (threads_.size() >= limits_.threads) return nullptr;
  Thread& thread = threads_[tid];
  thread.misaligned = lost_until_ns_ != 0;  // the loss may have been this thread's
  return &thread;
}

// This is harmless: a thread that comes back starts misaligned if anything was lost.
void Pairer::forget_idle_threads() {
  if (!may_forget_) return;
  may_forget_ = false;
  absl::erase_if(threads_, [](const auto& entry) {
    return entry.second.waiting.size == 0 && entry.second.postponed.size == 0;
  });
}

void Pairer::drop_front(CaptureList& list) {
  pool_.pop(list);
  drops_.add(Drop::kPairUnusedCapture);
}

void Pairer::drop_all(CaptureList& list) {
  while (list.size > 0) drop_front(list);
}

void Pairer::drop_older(CaptureList& list, std::uint64_t time_ns) {
  while (list.size > 0 && pool_.front(list).time_ns < time_ns) drop_front(list);
}

}  // namespace memprofd
