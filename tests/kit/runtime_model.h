// SPDX-License-Identifier: Apache-2.0
// A model of how the OCaml 4.11-4.14 runtime captures stacks and calls back,
// with the truth about which stack each sample has.
//
// Threads take turns under one lock. A step of a thread is one of: an
// allocation by OCaml code (capture, alloc record, at once), a combined one
// (that twice), one by C code (capture now, record in the thread's next run),
// an unmarshalling (one capture, several records, then a run), a run, a
// deallocation found by the GC. A signal handler may come between an
// unmarshalling and its run. Records collect in batches as in the agent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "agent-lib/include/memprof_agent_abi.h"

namespace memprofd {

struct ModelCapture {
  std::uint32_t tid;
  std::uint64_t time_ns;
  std::uint32_t stack;  // its number, from 1, never used again
  bool direct;
  bool interned;
};

struct ModelBatch {
  std::uint64_t time_ns;
  std::uint64_t first_seq;
  std::vector<memprof_record> records;
};

struct ModelOptions {
  int threads = 4;
  // Unmarshalling inside a signal handler, with another one outstanding: which
  // record belongs to which of the two cannot be known.
  bool nested_unmarshalling = false;
  bool thread_exits = true;
  // OCaml 4.11: any thread calls back what any other has outstanding.
  bool one_queue = false;
  std::size_t max_batch = 40;
};

class RuntimeModel {
 public:
  std::function<void(const ModelCapture&)> on_capture;
  std::function<void(const ModelBatch&)> on_batch;
  std::function<void(std::uint32_t tid, std::uint64_t time_ns)> on_thread_exit;
  std::map<std::uint64_t, std::uint32_t> truth;  // sample id -> stack

  RuntimeModel(unsigned seed, const ModelOptions& options) : options_(options), random_(seed) {
    threads_.resize(options.threads);
    for (int i = 0; i < options.threads; ++i) threads_[i].tid = 100 + i;
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step(threads_[below(threads_.size())]);
    for (Thread& thread : threads_) call_back_all(thread);
    flush();
  }

  // Records written and not yet flushed, as a reader of the process sees them.
  ModelBatch tail() const { return {now_, next_seq_ - unflushed_.size(), unflushed_}; }
  std::uint64_t now() const { return now_; }
  std::uint64_t allocs() const { return next_sample_ - 1; }
  std::size_t live() const { return live_.size(); }

 private:
  struct Entry {
    std::uint32_t stack;
    std::uint32_t source;
  };
  struct Thread {
    std::uint32_t tid;
    std::deque<Entry> own;
  };

  std::deque<Entry>& outstanding(Thread& thread) {
    return options_.one_queue ? threads_.front().own : thread.own;
  }

  std::size_t below(std::size_t n) { return random_() % n; }
  bool chance(int percent) { return below(100) < static_cast<std::size_t>(percent); }

  void step(Thread& thread) {
    switch (below(12)) {
      case 0:
      case 1:
      case 2:
        return direct(thread);
      case 3:
        direct(thread);
        return direct(thread);
      case 4:
      case 5:
        return postponed(thread);
      case 6:
        return unmarshal(thread, 0);
      case 7:
      case 8:
        return call_back_all(thread);
      case 9:
        return dealloc(thread);
      case 10:
        if (options_.thread_exits && chance(10)) exit(thread);
        return;
      default:
        if (chance(30)) flush();
    }
  }

  std::uint32_t capture(Thread& thread, bool is_direct, bool interned) {
    now_ += 1 + below(100);
    on_capture({thread.tid, now_, ++last_stack_, is_direct, interned});
    return last_stack_;
  }

  void direct(Thread& thread) {
    const std::uint32_t stack = capture(thread, true, false);
    alloc_record(thread, {stack, MEMPROF_SOURCE_NORMAL}, MEMPROF_ALLOC_MINOR);
  }

  void postponed(Thread& thread) {
    const std::uint32_t source = chance(20) ? MEMPROF_SOURCE_CUSTOM : MEMPROF_SOURCE_NORMAL;
    outstanding(thread).push_back({capture(thread, false, false), source});
  }

  void unmarshal(Thread& thread, int depth) {
    const std::uint32_t stack = capture(thread, false, true);
    const std::size_t blocks = 1 + below(5);
    for (std::size_t i = 0; i < blocks; ++i) {
      outstanding(thread).push_back({stack, MEMPROF_SOURCE_MARSHAL});
    }
    if (chance(30)) direct(thread);  // a signal handler runs first
    if (chance(30)) postponed(thread);
    if (options_.nested_unmarshalling && depth < 2 && chance(50)) unmarshal(thread, depth + 1);
    call_back_all(thread);
  }

  void call_back_all(Thread& thread) {
    std::deque<Entry>& entries = outstanding(thread);
    while (!entries.empty()) {
      const Entry entry = entries.front();
      entries.pop_front();
      alloc_record(thread, entry, chance(50) ? MEMPROF_ALLOC_MINOR : MEMPROF_ALLOC_MAJOR);
    }
  }

  void alloc_record(Thread& thread, const Entry& entry, std::uint32_t kind) {
    const std::uint64_t id = next_sample_++;
    truth[id] = entry.stack;
    live_.push_back({id, kind});
    append(thread, id, entry.source, kind, 1 + static_cast<std::uint32_t>(below(3)));
  }

  void dealloc(Thread& thread) {
    if (live_.empty()) return;
    const std::size_t at = below(live_.size());
    auto& [id, kind] = live_[at];
    if (kind == MEMPROF_ALLOC_MINOR && chance(50)) {
      kind = MEMPROF_ALLOC_MAJOR;
      return append(thread, id, 0, MEMPROF_PROMOTE, 0);
    }
    append(thread, id, 0,
           kind == MEMPROF_ALLOC_MINOR ? MEMPROF_DEALLOC_MINOR : MEMPROF_DEALLOC_MAJOR, 0);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void append(Thread& thread, std::uint64_t id, std::uint32_t source, std::uint32_t kind,
              std::uint32_t n_samples) {
    now_ += 1 + below(50);
    unflushed_.push_back({.time_ns = now_,
                          .sample_id = id,
                          .size_words = n_samples,
                          .n_samples = n_samples,
                          .origin = MEMPROF_ORIGIN(thread.tid, source, kind)});
    ++next_seq_;
    if (unflushed_.size() >= options_.max_batch) flush();
  }

  void flush() {
    if (unflushed_.empty()) return;  // as the agent does
    now_ += 1 + below(50);
    const ModelBatch batch = tail();
    unflushed_.clear();
    exited_.clear();
    on_batch(batch);
  }

  // What is outstanding dies with the thread; a new thread takes its place, with
  // the same id or another. No id is used three times within a batch.
  void exit(Thread& thread) {
    if (!exited_.insert(thread.tid).second) flush();
    exited_.insert(thread.tid);
    now_ += 1 + below(50);
    on_thread_exit(thread.tid, now_);
    if (!options_.one_queue) thread.own.clear();
    if (chance(50)) thread.tid = free_tid();
  }

  std::uint32_t free_tid() {
    while (true) {
      const std::uint32_t tid = 100 + static_cast<std::uint32_t>(below(3 * threads_.size()));
      const auto has_it = [&](const Thread& thread) { return thread.tid == tid; };
      if (std::none_of(threads_.begin(), threads_.end(), has_it)) return tid;
    }
  }

  ModelOptions options_;
  std::mt19937 random_;
  std::vector<Thread> threads_;
  std::uint64_t now_ = 1000;
  std::uint32_t last_stack_ = 0;
  std::uint64_t next_sample_ = 1;
  std::uint64_t next_seq_ = 0;
  std::vector<memprof_record> unflushed_;
  std::set<std::uint32_t> exited_;  // since the last flush
  std::vector<std::pair<std::uint64_t, std::uint32_t>> live_;
};

}  // namespace memprofd
