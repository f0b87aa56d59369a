// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/sample_of_published.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace memprofd {
namespace {

// A function that was not evaluated for this many of its periods has ended: there is no viewer, or
// the program does not allocate.
constexpr double kPeriods = 3;
constexpr double kMinSeconds = 10;

static_assert(static_cast<int>(PublishedValue::Kind::kTag) ==
              static_cast<int>(ValueSeries::Kind::kTag));

bool is_stale(const PublishedValue& one, std::uint64_t now_ns) {
  if (one.source != MEMPROF_VALUE_FUNCTION) return false;
  const double periods_seconds = kPeriods * one.period_ms / 1e3;
  return one.age_seconds(now_ns).value_or(0) > std::max(kMinSeconds, periods_seconds);
}

class Sampling {
 public:
  // Collects numbers of one series, which differ by their quantity.
  Sampling(ValueSeries series, ValueSample& out) : series_(std::move(series)), out_(out) {}

  void add(ValueQuantity quantity, double number) {
    if (!std::isfinite(number)) return;
    series_.quantity = quantity;
    out_.numbers.emplace_back(series_, number);
  }
  void add_size(ValueQuantity quantity, std::uint64_t size) {
    add(quantity, static_cast<double>(size));
  }

 private:
  ValueSeries series_;
  ValueSample& out_;
};

void add_timer(const PublishedValue& one, Sampling& out) {
  out.add(ValueQuantity::kSeconds, one.seconds);
  out.add_size(ValueQuantity::kStops, one.stops);
  out.add_size(ValueQuantity::kRunning, one.running());
}

// A reference counts as the value that it holds.
void add_value(const Value& value, Sampling& out) {
  switch (value.kind) {
    case ValueKind::kInteger:
      return out.add(ValueQuantity::kNumber, static_cast<double>(value.integer));
    case ValueKind::kFloat:
      return out.add(ValueQuantity::kNumber, value.number);
    case ValueKind::kString:
    case ValueKind::kFloatArray:
    case ValueKind::kList:
    case ValueKind::kQueue:
    case ValueKind::kTree:
      return out.add_size(ValueQuantity::kSize, value.size);
    case ValueKind::kTable:
      out.add_size(ValueQuantity::kSize, value.size);
      out.add_size(ValueQuantity::kBuckets, value.buckets);
      if (!value.chains_counted) return;
      out.add_size(ValueQuantity::kEmptyBuckets, value.empty_buckets);
      return out.add_size(ValueQuantity::kLongestChain, value.longest_chain);
    case ValueKind::kTag:
      out.add_size(ValueQuantity::kSize, value.size);
      if (!value.is_more_memory) out.add_size(ValueQuantity::kBytes, value.bytes);
      return;
    case ValueKind::kReference:
      if (value.fields.size() == 1) add_value(value.fields.front(), out);
      return;
    default:
      return;  // no number
  }
}

ValueLine line_of(const PublishedLine& line, std::uint64_t now_ns) {
  using Kind = ValueLine::Kind;
  const auto ago_ns = static_cast<std::uint64_t>(line.seconds_ago * 1e9);
  return {.kind = line.kind == MEMPROF_LOG_PHASE_ENTER   ? Kind::kPhaseBegins
                  : line.kind == MEMPROF_LOG_PHASE_LEAVE ? Kind::kPhaseEnds
                  : line.kind == MEMPROF_LOG_PAUSE       ? Kind::kPause
                                                         : Kind::kText,
          .is_cut = line.is_cut,
          .number = line.number,
          .time_ns = now_ns - std::min(now_ns, ago_ns),
          .text = line.text};
}

ValueSeries series_of(const PublishedValue& one) {
  return {.kind = static_cast<ValueSeries::Kind>(one.kind),
          .name = one.name,
          .labels = one.labels,
          .unit = one.unit};
}

}  // namespace

void add_values(const std::vector<NamedValue>& values, const std::vector<ModuleField>& kept,
                ValueSample& sample) {
  for (const NamedValue& named : values) {
    const auto as = std::find_if(kept.begin(), kept.end(), [&](const ModuleField& one) {
      return one.module == named.place && one.field == named.field;
    });
    if (named.value.is_changing || as == kept.end()) continue;
    Sampling out({.kind = ValueSeries::Kind::kValue, .name = as->name}, sample);
    add_value(named.value, out);
  }
}

ValueSample sample_of(const Publication& report, std::uint64_t now_ns) {
  ValueSample sample{.time_ns = now_ns};
  for (const PublishedValue& one : report.all) {
    if (one.is_off() || one.is_torn || is_stale(one, now_ns)) continue;
    Sampling out(series_of(one), sample);
    if (one.kind == PublishedValue::Kind::kPoint) {
      out.add(ValueQuantity::kHits, static_cast<double>(one.hits));
    } else if (one.has_value()) {
      add_value(one.value, out);
    } else if (one.has_times()) {
      add_timer(one, out);
    }
  }
  for (const PublishedLine& line : report.lines) sample.lines.push_back(line_of(line, now_ns));
  return sample;
}

}  // namespace memprofd
