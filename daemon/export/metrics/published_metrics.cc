// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/metrics/published_metrics.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

constexpr MetricName kHits{"memprofd_point_hits_total", "Hits of a published point."};
constexpr MetricName kTimerSeconds{
    "memprofd_timer_seconds_total",
    "Time of a timer or phase, running intervals included; overlapping intervals add up."};
constexpr MetricName kTimerStops{"memprofd_timer_stops_total",
                                 "Ended intervals of a timer or phase."};
constexpr MetricName kTimerRunning{"memprofd_timer_running",
                                   "Running intervals of a phase, or of a timer without tokens."};
constexpr MetricName kDurations{"memprofd_timer_duration_seconds",
                                "Duration of a timer's intervals that were stopped with their "
                                "token; limits are at most an eighth off."};
constexpr MetricName kValue{"memprofd_value", "A published number; 0 is false, 1 is true."};
constexpr MetricName kSize{"memprofd_value_size",
                           "Elements of a list, queue, map, set or float array, or bytes of a "
                           "string, unless a list is too large."};
constexpr MetricName kAge{"memprofd_value_age_seconds",
                          "Time since the program set or computed a value."};
constexpr MetricName kBindings{"memprofd_table_bindings", "Bindings of a Hashtbl."};
constexpr MetricName kBuckets{"memprofd_table_buckets", "Buckets of a Hashtbl."};
constexpr MetricName kEmpty{"memprofd_table_empty_buckets",
                            "Empty buckets of a Hashtbl, unless it is too large."};
constexpr MetricName kLongest{
    "memprofd_table_longest_chain",
    "Bindings in the fullest bucket of a Hashtbl, unless it is too large."};
constexpr MetricName kInBucket{
    "memprofd_table_bucket_bindings",
    "Buckets of a Hashtbl by their number of bindings, unless it is too large."};
constexpr MetricName kMarked{"memprofd_tag_values",
                             "Values that a tag marks and that are not collected yet; of a large "
                             "tag those that were examined."};
constexpr MetricName kMarkedBytes{
    "memprofd_tag_bytes",
    "Memory reachable from the values of a tag, shared parts once, unless it is too large."};
constexpr MetricName kRefused{
    "memprofd_reported_refused_names_total",
    "Points, timers and values that found no place in the program's registry."};
constexpr MetricName kLeftOut{
    "memprofd_reported_names_without_series",
    "Points, timers and values without a series: beyond the limit, or with the labels of another."};

// A name that Prometheus accepts and that is not one of ours: a clashing one gets the prefix
// "exported_".
std::string label_name(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  static const std::set<std::string_view> kOwn = {"pid",   "program", "point", "timer", "phase",
                                                  "value", "table",   "tag",   "unit",  "instance",
                                                  "job",   "le",      ""};
  const bool is_free = !kOwn.contains(out) &&
                       !absl::ascii_isdigit(static_cast<unsigned char>(out[0])) &&
                       !out.starts_with("__");
  return is_free ? out : "exported_" + out;
}

std::string text_of(const MetricLabels& labels) {
  std::string text;
  for (const auto& label : labels) {
    absl::StrAppend(&text, label.name, "=", absl::CEscape(valid_utf8(label.value)), "\n");
  }
  return text;
}

MetricLabels labels_of(const char* kind, const PublishedValue& one) {
  MetricLabels labels = {{kind, one.name}};
  if (!one.unit.empty()) labels.push_back({"unit", one.unit});
  for (const auto& [key, value] : one.labels) {
    const std::string name = label_name(key);
    const bool is_there = std::any_of(labels.begin(), labels.end(),
                                      [&](const auto& label) { return label.name == name; });
    if (!is_there) labels.push_back({name, value});
  }
  return labels;
}

const char* kind_of(const PublishedValue& one) {
  switch (one.kind) {
    case PublishedValue::Kind::kPoint:
      return "point";
    case PublishedValue::Kind::kTimer:
      return "timer";
    case PublishedValue::Kind::kPhase:
      return "phase";
    case PublishedValue::Kind::kTag:
      return "tag";
    case PublishedValue::Kind::kRequest:
      return "request";
    case PublishedValue::Kind::kValue:
      break;
  }
  return one.value.kind == ValueKind::kTable ? "table" : "value";
}

// Limits are powers of two; the last number counts all longer chains.
prometheus::ClientMetric::Histogram buckets_of(const Value& table) {
  prometheus::ClientMetric::Histogram histogram;
  std::uint64_t buckets = 0;
  std::size_t next = 0;
  for (const std::size_t most : {0, 1, 2, 4, 8, 15}) {
    for (; next <= most && next < table.chains.size(); ++next) buckets += table.chains[next];
    histogram.bucket.push_back({buckets, static_cast<double>(most)});
  }
  for (; next < table.chains.size(); ++next) buckets += table.chains[next];
  histogram.sample_count = buckets;
  histogram.sample_sum = static_cast<double>(table.size);
  return histogram;
}

void add_table(const MetricLabels& labels, const Value& table, MetricFamilies& out) {
  out.gauge(kBindings, labels, static_cast<double>(table.size));
  out.gauge(kBuckets, labels, static_cast<double>(table.buckets));
  if (!table.chains_counted) return;
  out.gauge(kEmpty, labels, static_cast<double>(table.empty_buckets));
  out.gauge(kLongest, labels, static_cast<double>(table.longest_chain));
  out.histogram(kInBucket, labels, buckets_of(table));
}

bool has_size(ValueKind kind) {
  return kind == ValueKind::kList || kind == ValueKind::kQueue || kind == ValueKind::kTree ||
         kind == ValueKind::kString || kind == ValueKind::kFloatArray;
}

void add_value(const MetricLabels& labels, const PublishedValue& one, std::uint64_t now_ns,
               MetricFamilies& out) {
  const Value& value = one.value;
  if (value.kind == ValueKind::kTable) return add_table(labels, value, out);
  if (value.kind == ValueKind::kInteger) {
    out.gauge(kValue, labels, static_cast<double>(value.integer));
  } else if (value.kind == ValueKind::kFloat) {
    out.gauge(kValue, labels, value.number);
  } else if (has_size(value.kind) && !value.is_longer) {
    out.gauge(kSize, labels, static_cast<double>(value.size));
  }
  if (const auto age = one.age_seconds(now_ns)) out.gauge(kAge, labels, *age);
}

void add_tag(const MetricLabels& labels, const Value& value, MetricFamilies& out) {
  if (value.kind != ValueKind::kTag) return;
  out.gauge(kMarked, labels, static_cast<double>(value.size));
  if (!value.is_more_memory) out.gauge(kMarkedBytes, labels, static_cast<double>(value.bytes));
}

// The limits are 1, 2.5 and 5 for each power of ten, from a microsecond on.
prometheus::ClientMetric::Histogram histogram_of(const Durations& durations) {
  static constexpr double kLimits[] = {1e-6, 2.5e-6, 5e-6,   1e-5, 2.5e-5, 5e-5,   1e-4, 2.5e-4,
                                       5e-4, 1e-3,   2.5e-3, 5e-3, 1e-2,   2.5e-2, 5e-2, 0.1,
                                       0.25, 0.5,    1,      2.5,  5,      10,     25,   50};
  prometheus::ClientMetric::Histogram histogram;
  for (const double limit : kLimits) {
    histogram.bucket.push_back({durations.not_above(limit), limit});
  }
  histogram.sample_count = durations.count();
  histogram.sample_sum = durations.seconds();
  return histogram;
}

void add_timer(const MetricLabels& labels, const PublishedValue& one, MetricFamilies& out) {
  out.counter(kTimerSeconds, labels, one.seconds);
  out.counter(kTimerStops, labels, static_cast<double>(one.stops));
  out.gauge(kTimerRunning, labels, static_cast<double>(one.running()));
  if (one.durations != nullptr) out.histogram(kDurations, labels, histogram_of(*one.durations));
}

}  // namespace

void add_published_metrics(const Publication& report, std::uint64_t now_ns, std::size_t& room,
                           MetricFamilies& out) {
  const std::size_t count = std::min({report.all.size(), kReportedNames, room});
  room -= count;
  // A duplicate series makes the scrape of all targets fail, and different names may have become
  // equal.
  std::set<std::string> known;
  for (std::size_t i = 0; i < count; ++i) {
    const PublishedValue& one = report.all[i];
    const MetricLabels labels = labels_of(kind_of(one), one);
    if (!known.insert(text_of(labels)).second || one.is_off()) continue;
    if (one.kind == PublishedValue::Kind::kRequest) continue;  // no number
    if (one.kind == PublishedValue::Kind::kPoint) {
      out.counter(kHits, labels, static_cast<double>(one.hits));
    } else if (one.kind == PublishedValue::Kind::kValue) {
      add_value(labels, one, now_ns, out);
    } else if (one.kind == PublishedValue::Kind::kTag) {
      add_tag(labels, one.value, out);
    } else {
      add_timer(labels, one, out);
    }
  }
  out.counter(kRefused, {}, static_cast<double>(report.refused));
  out.gauge(kLeftOut, {}, static_cast<double>(report.all.size() - known.size()));
}

}  // namespace memprofd
