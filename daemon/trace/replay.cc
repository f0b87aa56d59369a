// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/replay.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "bpf/events.h"
#include "daemon/aggregate/aggregator.h"
#include "daemon/aggregate/callstack_table.h"
#include "daemon/history/history.h"
#include "daemon/history/snapshot_counts.h"
#include "daemon/trace/recording.h"
#include "daemon/trace/trace_codes.h"
#include "daemon/trace/trace_order.h"
#include "daemon/trace/trace_symbolizer.h"
#include "daemon/util/base_name.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Larger than in the daemon, because a program that reads a file once does nothing else.
const CallstackTableLimits kCallstackLimits{.callstacks = 1u << 20, .entries = 32u << 20};
const AggregatorLimits kAggregatorLimits{.live_samples = 14'680'064,
                                         .classes = {.classes = 1u << 20}};
constexpr std::size_t kHistoryBytes = 256u << 20;
constexpr std::size_t kReorderedEvents = 1u << 20;
// Far later than any clock, without overflow in nanoseconds.
constexpr std::uint64_t kMaxTimeUs = std::numeric_limits<std::int64_t>::max() / 2000;

enum class What : std::uint8_t { kAlloc, kPromote, kCollect };

struct TraceEvent {
  std::uint64_t time_us = 0;
  std::uint64_t id = 0;
  std::uint64_t length_words = 0;
  std::uint32_t n_samples = 0;
  CallstackId callstack;
  std::uint16_t domain = 0;
  What what = What::kAlloc;
  ctf::Source source = ctf::Source::kMinor;
};

std::uint64_t ns_of(std::uint64_t time_us) { return std::min(time_us, kMaxTimeUs) * 1000; }

// External memory cannot die young, because it is in no minor heap.
std::uint32_t origin_of(ctf::Source source) {
  switch (source) {
    case ctf::Source::kMajor:
      return MEMPROF_ORIGIN(0, MEMPROF_SOURCE_NORMAL, MEMPROF_ALLOC_MAJOR);
    case ctf::Source::kExternal:
      return MEMPROF_ORIGIN(0, MEMPROF_SOURCE_CUSTOM, MEMPROF_ALLOC_MAJOR);
    case ctf::Source::kMinor:
      break;
  }
  return MEMPROF_ORIGIN(0, MEMPROF_SOURCE_NORMAL, MEMPROF_ALLOC_MINOR);
}

// Aggregates the events of a trace on the trace's clock.
class Replayer final : public ctf::Visitor {
 public:
  Replayer(const ctf::TraceInfo& info, int version)
      : info_(info),
        of_c_(info.context == kNativeHeapContext),
        order_(version >= ctf::kVersionDomains ? ctf::kMaxPacketSpanUs : 0, kReorderedEvents),
        begin_ns_(ns_of(info.start_time_us)),
        history_(begin_ns_) {
    aggregator_.begin_session(info.sampling_rate);
  }

  void on_location(std::uint64_t code, std::span<const ctf::Location> locations) override {
    symbolizer_->add(code, locations);
  }
  void on_alloc(const ctf::Alloc& event) override {
    put({.time_us = event.time_us,
         .id = event.id,
         .length_words = event.length_words,
         .n_samples = static_cast<std::uint32_t>(
             std::min<std::uint64_t>(event.n_samples, std::numeric_limits<std::uint32_t>::max())),
         .callstack = intern(event.callstack),
         .domain = event.domain,
         .what = What::kAlloc,
         .source = event.source});
  }
  void on_promote(const ctf::Promote& event) override { put(event, What::kPromote); }
  void on_collect(const ctf::Collect& event) override { put(event, What::kCollect); }

  ProfileSnapshotPtr finish(std::uint64_t end_us);

 private:
  void put(const ctf::BlockEvent& event, What what) {
    put({.time_us = event.time_us, .id = event.id, .what = what});
  }
  void put(const TraceEvent& event) {
    order_.put(event, [this](const TraceEvent& next) { take(next); });
  }
  CallstackId intern(std::span<const std::uint64_t> codes);
  bool is_in_major_heap(std::uint64_t id) const;
  void take(const TraceEvent& event);
  void alloc(const TraceEvent& event);
  void collect(const TraceEvent& event);
  void advance(std::uint64_t time_ns);
  void close_window(std::uint64_t time_ns);

  const ctf::TraceInfo info_;
  const bool of_c_;
  TraceOrder<TraceEvent> order_;
  std::shared_ptr<TraceSymbolizer> symbolizer_ = std::make_shared<TraceSymbolizer>();
  CallstackTable callstacks_{kCallstackLimits};
  DropCounters drops_;
  Aggregator aggregator_{kAggregatorLimits, drops_};
  const std::uint64_t begin_ns_;
  std::uint64_t now_ns_ = begin_ns_;  // time of the last event
  History history_;
  std::vector<std::uint64_t> entries_;
};

// Stores the callstack innermost first, with recursion compressed as on the kernel side.
CallstackId Replayer::intern(std::span<const std::uint64_t> codes) {
  if (codes.empty() || (codes.size() == 1 && codes[0] == kUnknownCode)) return CallstackId();
  entries_.clear();
  std::uint64_t repeats = 0;
  for (std::size_t i = codes.size(); i-- > 0;) {
    const bool again = i + 1 < codes.size() && codes[i] == codes[i + 1];
    repeats = again ? repeats + 1 : 0;
    if (repeats > 1) {
      entries_.back() = MEMPROF_RUN_MARK | repeats;
    } else {
      entries_.push_back(again ? MEMPROF_RUN_MARK | repeats : codes[i] & ctf::kMaxCode);
    }
  }
  const auto id = callstacks_.intern({.hash = StackHash(absl::HashOf(entries_) | 1),
                                      .entries = entries_,
                                      .n_frames = static_cast<std::uint32_t>(codes.size())});
  return callstacks_.counted(id, drops_);
}

bool Replayer::is_in_major_heap(std::uint64_t id) const {
  const auto block = aggregator_.live().find(SampleId(id));
  return block && block->heap() == Heap::kMajor;
}

void Replayer::take(const TraceEvent& event) {
  advance(ns_of(event.time_us));
  switch (event.what) {
    case What::kAlloc:
      return alloc(event);
    case What::kPromote:
      // Earlier versions wrote promotions of external memory.
      if (is_in_major_heap(event.id)) return;
      aggregator_.promote({.time_ns = now_ns_, .sample_id = event.id});
      return;
    case What::kCollect:
      return collect(event);
  }
}

void Replayer::alloc(const TraceEvent& event) {
  if (event.n_samples == 0) return drops_.add(Drop::kDecodeBadRecord);
  aggregator_.alloc({.time_ns = now_ns_,
                     .sample_id = event.id,
                     .size_words = event.length_words,
                     .n_samples = event.n_samples,
                     .origin = origin_of(event.source)},
                    event.callstack, event.domain);
}

void Replayer::collect(const TraceEvent& event) {
  const std::uint32_t kind =
      is_in_major_heap(event.id) ? MEMPROF_DEALLOC_MAJOR : MEMPROF_DEALLOC_MINOR;
  aggregator_.dealloc({.time_ns = now_ns_,
                       .sample_id = event.id,
                       .origin = MEMPROF_ORIGIN(0, MEMPROF_SOURCE_NORMAL, kind)});
}

// Windows end at whole seconds. One ends after the last event, so that a long time
// without events is a window of its own:
//
//   events   x  x    x                                      y
//   windows  |---|---|---|                              |---|
//                        '------ one without events ----'
void Replayer::advance(std::uint64_t time_ns) {
  constexpr std::uint64_t kWidth = kHistoryTierLimits[0].width_ns;
  if (history_.due(time_ns)) {
    close_window((now_ns_ / kWidth + 1) * kWidth);
    if (history_.due(time_ns)) close_window(time_ns / kWidth * kWidth);
  }
  now_ns_ = std::max(now_ns_, time_ns);
}

void Replayer::close_window(std::uint64_t time_ns) {
  history_.close_window(time_ns, [this](const auto& use) { aggregator_.close_interval(use); },
                        {.live = aggregator_.totals().live, .dropped_events = drops_.lost()});
  const TargetCounters& totals = aggregator_.totals();
  history_.note_live(time_ns, totals.live, totals.gone_words(), aggregator_.by_class());
  while (history_.memory_bytes() > kHistoryBytes && history_.evict_oldest()) {
  }
}

ProfileSnapshotPtr Replayer::finish(std::uint64_t end_us) {
  order_.finish([this](const TraceEvent& next) { take(next); });
  advance(ns_of(end_us));
  aggregator_.advance_clock_to(now_ns_);
  const std::uint64_t end_ns = now_ns_ + 1000;  // after the last event
  close_window(end_ns);
  auto snapshot = std::make_shared<ProfileSnapshot>();
  snapshot->info = {.pid = static_cast<int>(std::min<std::uint64_t>(info_.pid, 1u << 30)),
                    .comm = std::string(base_name(info_.executable)),
                    .exe = info_.executable,
                    .mode = TargetMode::kTrace,
                    .state = TargetState::kExited,
                    .sampling_rate = info_.sampling_rate,
                    .external_is_c = of_c_};
  snapshot->time_ns = end_ns;
  snapshot->attached_ns = begin_ns_;
  snapshot->drops = drops_;
  snapshot->history = history_.view();
  snapshot->symbolizer = symbolizer_;
  fill_counts(aggregator_, callstacks_, *snapshot);
  return snapshot;
}

absl::Status check(const ctf::TraceInfo& info, const std::string& path) {
  if (info.word_bits == 64) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(path, " is of a program with words of ", info.word_bits,
                   " bits, and reports are for 64; memprofctl trace dump shows its events"));
}

}  // namespace

absl::StatusOr<Replay> replay_trace(const std::string& path) {
  ASSIGN_OR_RETURN(ctf::Reader reader, ctf::Reader::open(path));
  RETURN_IF_ERROR(check(reader.info(), path));
  Replayer replayer(reader.info(), reader.version());
  ctf::ReadSummary summary = reader.read(replayer);
  const std::uint64_t end_us = summary.last_time_us;
  return Replay{replayer.finish(end_us), std::move(summary), reader.version()};
}

absl::StatusOr<ProfileSnapshotPtr> TraceFileSource::snapshot(int pid) {
  const int own = replay_.snapshot->info.pid;
  if (pid == 0 || pid == own) return replay_.snapshot;
  return absl::NotFoundError(absl::StrCat("the trace is of pid ", own, ", not of ", pid));
}

}  // namespace memprofd
