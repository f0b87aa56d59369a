// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/metrics/gc_metrics.h"

#include <algorithm>
#include <cmath>

#include "daemon/util/clock.h"
#include "daemon/util/estimate.h"

namespace memprofd {
namespace {

constexpr MetricName kMinorCollections{"memprofd_ocaml_minor_collections_total",
                                       "Minor collections since the start of the program."};
constexpr MetricName kMajorCollections{
    "memprofd_ocaml_major_collections_total",
    "Completed major collections since the start of the program."};
constexpr MetricName kCompactions{"memprofd_ocaml_compactions_total",
                                  "Heap compactions since the start of the program."};
constexpr MetricName kHeap{"memprofd_ocaml_heap_bytes", "Size of the major heap."};
constexpr MetricName kFreeHeap{"memprofd_ocaml_heap_free_bytes",
                               "Free space in the major heap, counted by the runtime."};
constexpr MetricName kMinorHeaps{"memprofd_ocaml_minor_heap_bytes",
                                 "Size of the minor heaps of all domains."};
constexpr MetricName kTopHeap{"memprofd_ocaml_top_heap_bytes",
                              "Largest size of the major heap so far."};
constexpr MetricName kMinorAllocated{"memprofd_ocaml_minor_allocated_bytes_total",
                                     "Bytes allocated in the minor heap, counted by the runtime."};
constexpr MetricName kRuntimePromoted{"memprofd_ocaml_promoted_bytes_total",
                                      "Bytes moved to the major heap, counted by the runtime."};
constexpr MetricName kMajorAllocated{
    "memprofd_ocaml_major_allocated_bytes_total",
    "Bytes allocated in the major heap, promoted ones included, counted by the runtime."};
constexpr MetricName kPause{"memprofd_ocaml_gc_pause_seconds",
                            "Pauses for garbage collection, measured while sampling."};

constexpr const char* kPhaseLabels[MEMPROF_GC_PHASES] = {"minor", "major_slice"};

double advance(double last, double now) { return std::isfinite(now) ? std::max(last, now) : last; }

memprof_pauses advance(const memprof_pauses& last, const memprof_pauses& now) {
  memprof_pauses out;
  out.sum_ns = std::max(last.sum_ns, now.sum_ns);
  for (unsigned i = 0; i < MEMPROF_PAUSE_BUCKETS; ++i) {
    out.count[i] = std::max(last.count[i], now.count[i]);
  }
  return out;
}

// The agent's buckets grow by a factor of 2 from 1 us on. Every third one ends an exported bucket:
// 16 us, 131 us, 1 ms, 8.4 ms, 67 ms, 0.54 s, 4.3 s.
constexpr unsigned kFirstPauseBound = 4, kBucketsPerPauseBound = 3;

prometheus::ClientMetric::Histogram histogram_of(const memprof_pauses& pauses) {
  prometheus::ClientMetric::Histogram histogram;
  for (unsigned i = 0; i + 1 < MEMPROF_PAUSE_BUCKETS; ++i) {
    histogram.sample_count += pauses.count[i];
    if (i < kFirstPauseBound || (i - kFirstPauseBound) % kBucketsPerPauseBound != 0) continue;
    histogram.bucket.push_back(
        {histogram.sample_count, static_cast<double>(1024ULL << i) / kNsPerSecond});
  }
  histogram.sample_count += pauses.count[MEMPROF_PAUSE_BUCKETS - 1];
  histogram.sample_sum = static_cast<double>(pauses.sum_ns) / kNsPerSecond;
  return histogram;
}

}  // namespace

GcStats advance_gc_stats(const GcStats& last, const GcStats& now) {
  if (!now.valid) return last;
  GcStats out = now;
  out.minor_words = advance(last.minor_words, now.minor_words);
  out.promoted_words = advance(last.promoted_words, now.promoted_words);
  out.major_words = advance(last.major_words, now.major_words);
  out.minor_collections = std::max(last.minor_collections, now.minor_collections);
  out.major_collections = std::max(last.major_collections, now.major_collections);
  out.compactions = std::max(last.compactions, now.compactions);
  for (int phase = 0; phase < MEMPROF_GC_PHASES; ++phase) {
    out.pauses[phase] = advance(last.pauses[phase], now.pauses[phase]);
  }
  return out;
}

void add_gc_metrics(const GcStats& gc, MetricFamilies& out) {
  if (!gc.valid) return;
  const MetricLabels labels;
  out.counter(kMinorCollections, labels, static_cast<double>(gc.minor_collections));
  out.counter(kMajorCollections, labels, static_cast<double>(gc.major_collections));
  out.counter(kCompactions, labels, static_cast<double>(gc.compactions));
  if (gc.heap_words > 0) {
    out.gauge(kHeap, labels, static_cast<double>(gc.heap_words) * kBytesPerWord);
    out.gauge(kTopHeap, labels, static_cast<double>(gc.top_heap_words) * kBytesPerWord);
  }
  if (gc.free_words) {
    out.gauge(kFreeHeap, labels, static_cast<double>(*gc.free_words) * kBytesPerWord);
  }
  if (gc.minor_heap_words > 0) {
    out.gauge(kMinorHeaps, labels, static_cast<double>(gc.minor_heap_words) * kBytesPerWord);
  }
  out.counter(kMinorAllocated, labels, gc.minor_words * kBytesPerWord);
  out.counter(kRuntimePromoted, labels, gc.promoted_words * kBytesPerWord);
  out.counter(kMajorAllocated, labels, gc.major_words * kBytesPerWord);
}

void add_growth(const GcStats& last, const GcStats& now, GcPauses& sum) {
  for (std::size_t phase = 0; phase < sum.size(); ++phase) {
    const memprof_pauses &before = last.pauses[phase], &after = now.pauses[phase];
    sum[phase].sum_ns += after.sum_ns - std::min(before.sum_ns, after.sum_ns);
    for (unsigned i = 0; i < MEMPROF_PAUSE_BUCKETS; ++i) {
      sum[phase].count[i] += after.count[i] - std::min(before.count[i], after.count[i]);
    }
  }
}

void add_pause_metrics(const GcPauses& pauses, MetricFamilies& out) {
  for (std::size_t phase = 0; phase < pauses.size(); ++phase) {
    out.histogram(kPause, {{"phase", kPhaseLabels[phase]}}, histogram_of(pauses[phase]));
  }
}

}  // namespace memprofd
