// SPDX-License-Identifier: Apache-2.0
// A ProfilerService without kernel or targets. Its snapshot has simple numbers: at rate 1e-3 one
// sample stands for 8,000 bytes.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/service.h"
#include "daemon/history/snapshot.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd::testing {

inline constexpr double kRate = 1e-3;
inline constexpr double kSampleBytes = 8 / kRate;
inline constexpr std::uint64_t kStartTicks = 1234567;  // of all processes

// Return address n is location n of a table.
class FakeSymbolizer : public Symbolizer {
 public:
  std::map<std::uint64_t, Location> table;

  std::vector<Location> look_up(std::uint64_t return_address, std::int32_t) override {
    const auto found = table.find(return_address);
    if (found != table.end()) return {found->second};
    return {Location{.function = absl::StrCat("0x", absl::Hex(return_address))}};
  }
};

inline Location location(std::string function, std::string file, std::uint32_t line) {
  return {.function = std::move(function),
          .file = std::move(file),
          .line = line,
          .start_column = 4,
          .end_column = 20,
          .library = "server.exe"};
}

// Samples of one callstack; those deallocated lived lifetime_ns each.
struct Samples {
  std::uint32_t allocated = 0, promoted = 0, live = 0, died_young = 0, died_old = 0;
  std::uint64_t lifetime_ns = 0;
};

inline Counters counters_of(const Samples& samples) {
  Counters out;
  const auto add = [](Estimate& to, std::uint32_t n) {
    if (n > 0) to.add(n, weight_of_word(kRate));
  };
  add(out.allocated, samples.allocated);
  add(out.promoted, samples.promoted);
  add(out.live, samples.live);
  add(out.deallocated[0], samples.died_young);
  add(out.deallocated[1], samples.died_old);
  const auto add_blocks = [](DeathCounts& to, Heap heap, std::uint32_t n, auto age_of) {
    for (std::uint32_t i = 0; i < n; ++i) to.add(heap, age_of(i), 1, 1 / kRate);
  };
  const auto lifetime = [&](std::uint32_t) { return samples.lifetime_ns; };
  add_blocks(out.deaths, Heap::kMinor, samples.died_young, lifetime);
  add_blocks(out.deaths, Heap::kMajor, samples.died_old, lifetime);
  // Births are spread evenly over the last 10 minutes.
  add_blocks(out.ages, Heap::kMinor, samples.live, [&](std::uint32_t i) {
    return std::uint64_t{600'000'000'000} * (i + 1) / samples.live;
  });
  return out;
}

// Adds a callstack with these return addresses, and its counts to the totals.
inline void add_callstack(ProfileSnapshot& target, std::vector<std::uint64_t> addresses,
                          const Samples& samples) {
  auto callstack = std::make_shared<Callstack>();
  callstack->hash = StackHash(target.rows.size() + 1);
  callstack->n_frames = static_cast<std::uint32_t>(addresses.size());
  callstack->entries = std::move(addresses);
  static std::vector<std::shared_ptr<const Callstack>> kept;
  kept.push_back(callstack);
  const Counters counters = counters_of(samples);
  const auto id = static_cast<std::uint32_t>(target.rows.size() + 1);
  target.rows.push_back({ClassId(id), {.callstack = CallstackId(id)}, callstack.get(), counters});
  target.counters.allocated[0][0] += counters.allocated;
  target.counters.promoted += counters.promoted;
  target.counters.live += counters.live;
  for (int heap = 0; heap < kHeaps; ++heap) {
    target.counters.deallocated[heap] += counters.deallocated[heap];
  }
  target.counters.alloc_events += samples.allocated;
  target.counters.promote_events += samples.promoted;
  target.counters.dealloc_events += samples.died_young + samples.died_old;
  target.counters.unsampled_words += 131072;
  target.live_samples_tracked += samples.live;
  ++target.stacks_interned;
}

inline std::shared_ptr<FakeSymbolizer> fixed_symbolizer() {
  auto symbolizer = std::make_shared<FakeSymbolizer>();
  symbolizer->table = {{1, location("Sessions.remember", "bin/sessions.ml", 27)},
                       {2, location("Parser.token", "bin/parser.ml", 112)},
                       {3, location("Cache.fill", "bin/cache.ml", 58)},
                       {4, location("Request.handle", "bin/request.ml", 40)},
                       {5, location("Server.loop", "bin/server.ml", 81)}};
  return symbolizer;
}

inline GcStats fixed_gc() {
  GcStats gc;
  gc.valid = true;
  gc.minor_words = 275e6;
  gc.promoted_words = 12e6;
  gc.major_words = 13e6;
  gc.minor_collections = 1053;
  gc.major_collections = 89;
  gc.compactions = 2;
  gc.heap_words = 8u << 20;
  gc.top_heap_words = 10u << 20;
  gc.heap_chunks = 15;
  gc.free_words = 2u << 20;
  gc.minor_heap_words = 256u << 10;
  gc.pauses[MEMPROF_GC_MINOR].sum_ns = 60'000'000;
  gc.pauses[MEMPROF_GC_MINOR].count[5] = 900;   // below 33 us
  gc.pauses[MEMPROF_GC_MINOR].count[10] = 153;  // below 1.05 ms
  gc.pauses[MEMPROF_GC_MAJOR_SLICE].sum_ns = 90'000'000;
  gc.pauses[MEMPROF_GC_MAJOR_SLICE].count[9] = 200;
  return gc;
}

// Describes a target that was attached with a rate of 1e-2.
inline OverheadInfo fixed_overhead() {
  return {.budget = 0.01,
          .measured = 0.0075,
          .requested_rate = 1e-2,
          .lowered = 3,
          .raised = 2,
          .exhausted = false,
          .memprofd_cores = 0.0125};
}

inline std::shared_ptr<ProfileSnapshot> fixed_target(int pid = 4242) {
  auto target = std::make_shared<ProfileSnapshot>();
  target->info = {.pid = pid,
                  .comm = "server.exe",
                  .exe = "/srv/app/server.exe",
                  .runtime_version = "4.13.1",
                  .mode = TargetMode::kAgent,
                  .capture = "runtime",
                  .state = TargetState::kSampling,
                  .sampling_rate = kRate,
                  .attach_seconds = 0.0125,
                  .paused_seconds = 0.00045};
  target->info.program.start_time_ticks = kStartTicks;
  target->attached_ns = 1'700'000'000'000'000'000;
  target->time_ns = target->attached_ns + 600'000'000'000;
  target->symbolizer = fixed_symbolizer();
  add_callstack(*target, {1, 4, 5},
                {.allocated = 10000,
                 .promoted = 9000,
                 .live = 9500,
                 .died_young = 400,
                 .died_old = 100,
                 .lifetime_ns = 50'000'000});
  add_callstack(*target, {2, 4, 5},
                {.allocated = 250000,
                 .promoted = 50,
                 .live = 100,
                 .died_young = 249880,
                 .died_old = 20,
                 .lifetime_ns = 300'000});
  add_callstack(*target, {3, 4, 5},
                {.allocated = 14000,
                 .promoted = 2500,
                 .live = 800,
                 .died_young = 11000,
                 .died_old = 2200,
                 .lifetime_ns = 20'000'000'000});
  add_callstack(*target, {0xbeef}, {.allocated = 3, .live = 3});
  target->counters.allocated[1][1].add(50, weight_of_word(kRate));
  target->drops.set(Drop::kKernelCaptureRingFull, 7);
  target->drops.set(Drop::kPairNoCapture, 2);
  target->gc = fixed_gc();
  target->memory = MemoryStatus{.anonymous = 90u << 20,
                                .files = 12u << 20,
                                .shared = 1u << 20,
                                .swapped = 3u << 20,
                                .page_tables = 320u << 10};
  target->ring_bytes_used = 1 << 18;
  target->ring_bytes_total = 1 << 20;
  return target;
}

// Durations of 0.1, 0.65 and 0.75 s.
inline DurationsPtr fixed_durations() {
  memprof_timer_histogram histogram{};
  for (const std::uint64_t ns : {100'000'000u, 650'000'000u, 750'000'000u}) {
    histogram.sum_ticks += ns;
    ++histogram.counts[memprof_values_bucket(ns)];
  }
  auto durations = std::make_shared<Durations>();
  durations->add(histogram);
  return durations;
}

// One published value of each kind.
inline ValuesAnswer fixed_report() {
  using Kind = PublishedValue::Kind;
  const Value table{.kind = ValueKind::kTable,
                    .size = 5,
                    .buckets = 8,
                    .empty_buckets = 6,
                    .longest_chain = 3,
                    .chains_counted = true,
                    .chains = {6, 0, 1, 1}};
  Publication report{
      .all = {{.kind = Kind::kPoint, .name = "requests", .unit = "requests", .hits = 12},
              {.kind = Kind::kTimer,
               .name = "handling",
               .starts = 4,
               .stops = 3,
               .seconds = 1.5,
               .max_seconds = 0.75,
               .durations = fixed_durations()},
              {.kind = Kind::kValue,
               .name = "queue",
               .unit = "jobs",
               .type = MEMPROF_VALUE_INT,
               .value = {.kind = ValueKind::kInteger, .integer = 7},
               .changed_ns = ~std::uint64_t{0}},
              {.kind = Kind::kValue, .name = "sessions", .value = table},
              {.kind = Kind::kTag,
               .name = "marked",
               .value = {.kind = ValueKind::kTag, .size = 3, .bytes = 240}}},
      .lines = {{.number = 8, .seconds_ago = 2.5, .text = "it's full"}},
      .refused = 2};
  return {.publishes = true, .report = std::move(report)};
}

class FakeService : public ProfilerService {
 public:
  FakeService() = default;
  explicit FakeService(std::vector<ProfileSnapshotPtr> targets) { set(std::move(targets)); }

  void set(std::vector<ProfileSnapshotPtr> targets) {
    const MutexLock lock(mutex_);
    targets_ = std::move(targets);
  }
  // Makes attach, detach and set_rate fail.
  void fail_with(absl::Status status) {
    const MutexLock lock(mutex_);
    failure_ = std::move(status);
  }
  // Makes a snapshot fail between its two pieces.
  void break_snapshots_with(absl::Status status) {
    const MutexLock lock(mutex_);
    broken_snapshot_ = std::move(status);
  }
  std::vector<std::string> calls() const {
    const MutexLock lock(mutex_);
    return calls_;
  }

  std::vector<ProfileSnapshotPtr> snapshots() override {
    const MutexLock lock(mutex_);
    return targets_;
  }
  absl::StatusOr<ProfileSnapshotPtr> snapshot(int pid) override {
    const MutexLock lock(mutex_);
    for (const ProfileSnapshotPtr& target : targets_) {
      if (target->info.pid == pid) return target;
    }
    return absl::NotFoundError(
        absl::StrCat("pid ", pid, " is not profiled; attach with: memprofctl attach ", pid));
  }
  absl::StatusOr<std::uint64_t> process_start_ticks(int) override { return kStartTicks; }
  absl::StatusOr<TargetInfo> attach(const AttachRequest& request) override {
    record(
        absl::StrCat("attach ", request.pid, " ", request.sampling_rate, " ", request.no_inject));
    if (request.max_overhead) record(absl::StrCat("max_overhead ", *request.max_overhead));
    if (absl::Status status = failure(); !status.ok()) return status;
    auto target = fixed_target(request.pid);
    target->info.sampling_rate = request.sampling_rate;
    set({target});
    return target->info;
  }
  absl::Status detach(const RequestedProcess& process) override {
    record(absl::StrCat("detach ", process.pid));
    return failure();
  }
  absl::Status set_rate(const RequestedProcess& process, const RateRequest& request) override {
    record(absl::StrCat("rate ", process.pid, " ", request.sampling_rate));
    if (request.max_overhead) record(absl::StrCat("max_overhead ", *request.max_overhead));
    return failure();
  }
  // Returns the configured answer.
  absl::StatusOr<ValuesAnswer> read_values(const RequestedProcess& process,
                                           const ValuesRequest& request,
                                           const std::function<bool()>& wanted) override {
    record(absl::StrCat("values ", process.pid, " '", request.pattern, "' ", request.limit,
                        request.with_constants ? " constants" : "",
                        request.with_contents ? " contents" : ""));
    if (absl::Status status = failure(); !status.ok()) return status;
    return wanted() ? values : ValuesAnswer();
  }
  // Values of each target that publishes some.
  std::vector<PublishedValues> read_published(const ValuesRequest&) override {
    record("published");
    std::vector<PublishedValues> published;
    if (!values.publishes && values.values.empty()) return published;
    for (const ProfileSnapshotPtr& target : snapshots()) {
      published.push_back({target->info.pid, values});
    }
    return published;
  }
  ValuesAnswer values;
  absl::StatusOr<std::uint32_t> resume(const RequestedProcess& process) override {
    record(absl::StrCat("resume ", process.pid));
    if (absl::Status status = failure(); !status.ok()) return status;
    return values.report.waiting;
  }
  absl::StatusOr<std::vector<std::string>> keep_values(const RequestedProcess& process,
                                                       const KeepRequest& request) override {
    record(absl::StrCat(request.forget ? "forget " : "keep ", process.pid, " ", request.pattern));
    if (absl::Status status = failure(); !status.ok()) return status;
    return std::vector<std::string>{"Cache[3]", "Cache[4]"};
  }
  absl::StatusOr<std::uint32_t> adjust(const RequestedProcess& process,
                                       const PublishedControl& control) override {
    record(absl::StrCat("adjust ", process.pid, " ", control.pattern, " ", control.labels.size(),
                        " ", control.enabled ? (*control.enabled ? "on" : "off") : "as it is", " ",
                        control.period_ms.value_or(7)));
    if (absl::Status status = failure(); !status.ok()) return status;
    return 2;
  }
  absl::StatusOr<RequestAnswer> ask(const RequestedProcess& process,
                                    const PublishedRequest& request,
                                    const std::function<bool()>& wanted) override {
    record(absl::StrCat("ask ", process.pid, " ", request.name, " '", request.argument, "' ",
                        request.timeout.count() / 1'000'000, " ms"));
    if (absl::Status status = failure(); !status.ok()) return status;
    return RequestAnswer{.text = wanted() ? "done\xff" : "", .is_cut = true};
  }
  // Returns two pieces.
  absl::StatusOr<HeapSummary> take_heap(const HeapRequest& request,
                                        const HeapClient& client) override {
    const char* const kept[] = {"", " with fingerprints", " with contents"};
    record(absl::StrCat("snapshot ", request.process.pid, " ", request.max_pause_seconds,
                        kept[static_cast<int>(request.contents)]));
    if (on_heap) on_heap(request.process.pid);
    if (absl::Status status = failure(); !status.ok()) return status;
    if (!client.take("one")) return absl::CancelledError("not wanted");
    if (absl::Status status = broken_snapshot(); !status.ok()) return status;
    if (!client.waits() || !client.take("two")) {
      return absl::CancelledError("not wanted");
    }
    return HeapSummary{.predicted_pause_seconds = 0.002,
                       .pause_seconds = 0.001,
                       .heap_words = 1000,
                       .blocks = 10,
                       .file_bytes = 6};
  }
  std::vector<Finding> diagnose(const RequestedProcess& process) override {
    std::vector<Finding> findings{
        {Finding::Level::kOk, "kernel", "6.1: all that is needed", ""},
        {Finding::Level::kWarning, "capture probe", "single-stepped, about 10 µs a sample",
         "leave --capture at auto"}};
    if (process.pid != 0) {
      findings.push_back({Finding::Level::kProblem, "runtime",
                          absl::StrCat("pid ", process.pid, " is not an OCaml program"),
                          "give the pid of one"});
    }
    return findings;
  }
  // If set, account_rss() and take_heap() call these first.
  std::function<void()> on_rss;
  std::function<void(int pid)> on_heap;
  absl::StatusOr<RssReport> account_rss(const RequestedProcess& process,
                                        RssOptions options) override {
    if (on_rss) on_rss();
    record(absl::StrCat("rss ", process.pid, options.owners ? " owners" : ""));
    if (absl::Status status = failure(); !status.ok()) return status;
    RssReport report{.pid = process.pid, .program = "/bin/server", .counted = 8192};
    report.status.anonymous = 8192;
    report.parts = {{.kind = RssClass::kMallocUsed, .resident = 4096, .size = 8192},
                    {.kind = RssClass::kCode, .name = "/bin/server", .resident = 4096}};
    report.has_owners = options.owners;
    if (options.owners) {
      report.owners = {
          {.identifier = "_zip", .blocks = 2, .chunks = 3, .bytes = 70, .resident = 60}};
      report.no_owner = {.chunks = 1, .bytes = 30, .resident = 20};
    }
    return report;
  }
  // Traces need a kernel, so this always fails.
  absl::StatusOr<std::shared_ptr<CallTrace>> trace_calls(const RequestedProcess& process,
                                                         const CallsRequest& request) override {
    record(absl::StrCat("calls ", process.pid, " ", request.pattern, " ", request.max_hits));
    if (absl::Status status = failure(); !status.ok()) return status;
    return absl::UnimplementedError("no kernel");
  }
  // Returns `found`.
  Discoveries discovered() override { return found; }
  Discoveries found;
  SelfStats self_stats() override {
    return {12.5, 0.5, 30u << 20, 123456, 7u << 20, 9u << 20, 99u << 20, 3, 5u << 20, 2};
  }

 private:
  void record(std::string call) {
    const MutexLock lock(mutex_);
    calls_.push_back(std::move(call));
  }
  absl::Status failure() const {
    const MutexLock lock(mutex_);
    return failure_;
  }

  absl::Status broken_snapshot() const {
    const MutexLock lock(mutex_);
    return broken_snapshot_;
  }

  mutable Mutex mutex_;
  std::vector<ProfileSnapshotPtr> targets_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_snapshot_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd::testing
