// SPDX-License-Identifier: Apache-2.0
// Collects samples into Prometheus metric families, one per name, in the order
// in which the names first came up.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/model/duration_counts.h"
#include "prometheus/metric_family.h"

namespace memprofd {

struct MetricName {
  const char* name;
  const char* help;
};

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

// Label values come from the target; this class makes them valid UTF-8.
class MetricFamilies {
 public:
  void counter(const MetricName& name, MetricLabels labels, double value);
  void gauge(const MetricName& name, MetricLabels labels, double value);
  // Buckets are cumulative. The infinite one is omitted, because sample_count has it.
  void histogram(const MetricName& name, MetricLabels labels,
                 prometheus::ClientMetric::Histogram histogram);
  void durations(const MetricName& name, MetricLabels labels, const DurationCounts& durations);

  // Puts these labels before those of each following series.
  void set_common_labels(MetricLabels labels) { common_ = std::move(labels); }

  // Adds the error of an estimate; there is no series while it is 0.
  void error(const MetricName& name, MetricLabels labels, double value) {
    if (value != 0) gauge(name, std::move(labels), value);
  }

  // While set, leaves out everything but counters.
  void only_counters(bool only) { only_counters_ = only; }

  // Series as Prometheus counts them: each bucket, sum and count of a histogram is one.
  std::size_t series() const { return series_; }
  // Takes all families of block. Common labels stay as they are.
  void append(MetricFamilies&& block);

  std::vector<prometheus::MetricFamily> take() { return std::move(families_); }

 private:
  prometheus::ClientMetric& add(const MetricName& name, prometheus::MetricType type,
                                MetricLabels labels);

  std::vector<prometheus::MetricFamily> families_;
  MetricLabels common_;
  bool only_counters_ = false;
  std::size_t series_ = 0;
  std::map<std::string_view, std::size_t> index_;  // by MetricName::name
};

}  // namespace memprofd
