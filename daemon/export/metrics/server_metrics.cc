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
constexpr MetricName kHttpDuration{
    "memprofd_http_request_duration_seconds",
    "Time from the whole request over HTTP to its answer, or to the begin of one that is streamed; "
    "of scrapes under handler=\"/metrics\"."};
constexpr MetricName kHttpRefused{
    "memprofd_http_refused_requests_total",
    "Requests over HTTP that were refused for their password, or for where they came from."};
constexpr MetricName kGrpcStarted{"grpc_server_started_total",
                                  "Calls over gRPC that have begun, by method."};
constexpr MetricName kGrpcHandled{"grpc_server_handled_total",
                                  "Calls over gRPC that have ended, by method and code."};
constexpr MetricName kGrpcHandling{"grpc_server_handling_seconds",
                                   "Time that calls over gRPC took, streams until their end."};
constexpr MetricName kCutOff{
    "memprofd_cut_off_connections_total",
    "Connections and streams that memprofd has ended because the client was too slow or did not "
    "read."};
constexpr MetricName kGrpcRefused{
    "memprofd_grpc_refused_connections_total",
    "Connections to the Unix socket that were refused because their user has too many."};
constexpr MetricName kGrpcStreams{"memprofd_grpc_streams", "Streams over gRPC that are open."};
constexpr MetricName kHeapSnapshots{
    "memprofd_heap_snapshots_total",
    "Snapshots of heaps that were asked for, by users or rules, by what became of them."};
constexpr MetricName kHeapDuration{
    "memprofd_heap_snapshot_duration_seconds",
    "Time from the request for a snapshot of a heap until all of it was handed out, of those that "
    "were taken."};
constexpr MetricName kHeapPause{"memprofd_heap_snapshot_pause_seconds",
                                "Time that programs stood still for those."};

constexpr MetricName kUnlogged{
    "memprofd_unlogged_requests_total",
    "Requests without a line in the log, as their user had too many in a minute."};
constexpr MetricName kUnexpected{
    "memprofd_unexpected_errors_total",
    "Requests and turns of threads of memprofd that ended by an error that it does not expect, as "
    "no memory; its log says which."};

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
