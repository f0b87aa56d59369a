// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/metrics/metric_families.h"

#include <iterator>
#include <limits>
#include <utility>

#include "daemon/util/utf8.h"

namespace memprofd {

prometheus::ClientMetric& MetricFamilies::add(const MetricName& name, prometheus::MetricType type,
                                              MetricLabels labels) {
  const auto [it, is_new] = index_.try_emplace(name.name, families_.size());
  if (is_new) families_.push_back({name.name, name.help, type, {}});
  ++series_;
  prometheus::ClientMetric& metric = families_[it->second].metric.emplace_back();
  metric.label = common_;
  metric.label.insert(metric.label.end(), std::make_move_iterator(labels.begin()),
                      std::make_move_iterator(labels.end()));
  for (prometheus::ClientMetric::Label& label : metric.label) label.value = valid_utf8(label.value);
  return metric;
}

void MetricFamilies::counter(const MetricName& name, MetricLabels labels, double value) {
  add(name, prometheus::MetricType::Counter, std::move(labels)).counter.value = value;
}

void MetricFamilies::gauge(const MetricName& name, MetricLabels labels, double value) {
  if (only_counters_) return;
  add(name, prometheus::MetricType::Gauge, std::move(labels)).gauge.value = value;
}

void MetricFamilies::histogram(const MetricName& name, MetricLabels labels,
                               prometheus::ClientMetric::Histogram histogram) {
  if (only_counters_) return;
  histogram.bucket.push_back({histogram.sample_count, std::numeric_limits<double>::infinity()});
  series_ += histogram.bucket.size() + 1;  // add() counts one of these, the sum or the count
  add(name, prometheus::MetricType::Histogram, std::move(labels)).histogram = std::move(histogram);
}

void MetricFamilies::append(MetricFamilies&& block) {
  std::vector<std::string_view> names(block.families_.size());
  for (const auto& [name, heap_kind] : block.index_) names[heap_kind] = name;
  for (std::size_t heap_kind = 0; heap_kind < names.size(); ++heap_kind) {
    prometheus::MetricFamily& from = block.families_[heap_kind];
    const auto [it, is_new] = index_.try_emplace(names[heap_kind], families_.size());
    if (is_new) {
      families_.push_back(std::move(from));
      continue;
    }
    auto& to = families_[it->second].metric;
    to.insert(to.end(), std::make_move_iterator(from.metric.begin()),
              std::make_move_iterator(from.metric.end()));
  }
  series_ += block.series_;
}

void MetricFamilies::durations(const MetricName& name, MetricLabels labels,
                               const DurationCounts& durations) {
  prometheus::ClientMetric::Histogram made;
  for (std::size_t i = 0; i < DurationCounts::kLimits.size(); ++i) {
    made.sample_count += durations.counts[i];
    made.bucket.push_back({made.sample_count, DurationCounts::kLimits[i]});
  }
  made.sample_count += durations.counts.back();
  made.sample_sum = durations.sum_seconds;
  histogram(name, std::move(labels), std::move(made));
}

}  // namespace memprofd
