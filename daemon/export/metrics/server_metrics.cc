// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/metrics/server_metrics.h"

#include <string>
#include <utility>

#include "daemon/export/api/audit.h"
#include "daemon/util/guard.h"

namespace memprofd {
namespace {

constexpr MetricName kHttpRequests{"memprofd_http_requests_total",
                                   "Requests over HTTP, by route, method and status."};
constexpr MetricName kHttpDuration{"memprofd_http_request_duration_seconds",
                                   "Time from the complete HTTP request to its answer, or to the "
                                   "first byte of a stream; scrapes have handler=\"/metrics\"."};
constexpr MetricName kHttpRefused{"memprofd_http_refused_requests_total",
                                  "HTTP requests refused because of their password or origin."};
constexpr MetricName kGrpcStarted{"grpc_server_started_total",
                                  "gRPC calls that have started, by method."};
constexpr MetricName kGrpcHandled{"grpc_server_handled_total",
                                  "gRPC calls that have ended, by method and code."};
constexpr MetricName kGrpcHandling{"grpc_server_handling_seconds",
                                   "Duration of gRPC calls, of streams until their end."};
constexpr MetricName kCutOff{"memprofd_cut_off_connections_total",
                             "Connections and streams that memprofd closed because the client was "
                             "too slow or did not read."};
constexpr MetricName kGrpcRefused{
    "memprofd_grpc_refused_connections_total",
    "Connections to the Unix socket refused because their user has too many."};
constexpr MetricName kGrpcStreams{"memprofd_grpc_streams", "Open gRPC streams."};
constexpr MetricName kHeapSnapshots{"memprofd_heap_snapshots_total",
                                    "Requested heap snapshots, by users or rules, by outcome."};
constexpr MetricName kHeapDuration{"memprofd_heap_snapshot_duration_seconds",
                                   "Time from the request for a heap snapshot until all of it was "
                                   "sent; snapshots that were taken."};
constexpr MetricName kHeapPause{"memprofd_heap_snapshot_pause_seconds",
                                "Time for which programs were paused for heap snapshots."};

constexpr MetricName kUnlogged{
    "memprofd_unlogged_requests_total",
    "Requests without a log line, because their user sent too many in a minute."};
constexpr MetricName kUnexpected{"memprofd_unexpected_errors_total",
                                 "Requests and thread activities of memprofd that ended with an "
                                 "unexpected error, such as no memory; the log names it."};

MetricLabels labels_of(const RequestCounts::Kind& kind) {
  MetricLabels labels;
  for (const auto& [name, value] : kind) labels.push_back({name, value});
  return labels;
}

void add_ended(const MetricName& name, const char* label, const RequestCounts::Kind& kind,
               const RequestCounts::Counts& counts, MetricFamilies& out) {
  for (const auto& [outcome, ended] : counts.ended) {
    MetricLabels labels = labels_of(kind);
    labels.push_back({label, outcome});
    out.counter(name, std::move(labels), static_cast<double>(ended));
  }
}

}  // namespace

void add_server_metrics(const ServerStats& stats, MetricFamilies& out) {
  for (const auto& [kind, counts] : stats.http.all()) {
    add_ended(kHttpRequests, "code", kind, counts, out);
    out.durations(kHttpDuration, labels_of(kind), counts.durations);
  }
  out.counter(kHttpRefused, {}, static_cast<double>(stats.http_refused));
  for (const auto& [kind, counts] : stats.grpc.all()) {
    out.counter(kGrpcStarted, labels_of(kind), static_cast<double>(counts.begun));
    add_ended(kGrpcHandled, "grpc_code", kind, counts, out);
    out.durations(kGrpcHandling, labels_of(kind), counts.durations);
  }
  out.counter(kCutOff, {{"server", "http"}}, static_cast<double>(stats.http_cut_off));
  out.counter(kCutOff, {{"server", "grpc"}}, static_cast<double>(stats.grpc_cut_off));
  out.counter(kGrpcRefused, {}, static_cast<double>(stats.grpc_refused));
  out.gauge(kGrpcStreams, {}, static_cast<double>(stats.grpc_streams));
  out.counter(kUnlogged, {}, static_cast<double>(unlogged_requests()));
  out.counter(kUnexpected, {}, static_cast<double>(unexpected_errors()));
}

void add_heap_outcomes(const HeapOutcomes& heaps, MetricFamilies& out) {
  for (const auto& [outcome, count] : heaps.all()) {
    out.counter(kHeapSnapshots, {{"outcome", outcome}}, static_cast<double>(count));
  }
  const HeapOutcomes::Times times = heaps.times();
  out.durations(kHeapDuration, {}, times.durations);
  out.durations(kHeapPause, {}, times.pauses);
}

}  // namespace memprofd
