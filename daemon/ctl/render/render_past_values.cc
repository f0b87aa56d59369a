// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_past_values.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/ctl/render/render_published.h"
#include "daemon/ctl/render/sparkline.h"
#include "daemon/ctl/render/text.h"
#include "daemon/ctl/render/text_table.h"
#include "daemon/util/clock.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

constexpr std::size_t kCourse = 24;  // columns

const char* quantity_text(pb::ValueQuantity quantity) {
  switch (quantity) {
    case pb::VALUE_QUANTITY_HITS:
      return "hits";
    case pb::VALUE_QUANTITY_SECONDS:
      return "seconds";
    case pb::VALUE_QUANTITY_STOPS:
      return "intervals";
    case pb::VALUE_QUANTITY_RUNNING:
      return "running";
    case pb::VALUE_QUANTITY_NUMBER:
      return "value";
    case pb::VALUE_QUANTITY_SIZE:
      return "size";
    case pb::VALUE_QUANTITY_BUCKETS:
      return "buckets";
    case pb::VALUE_QUANTITY_EMPTY_BUCKETS:
      return "empty buckets";
    case pb::VALUE_QUANTITY_LONGEST_CHAIN:
      return "longest chain";
    case pb::VALUE_QUANTITY_BYTES:
      return "bytes";
    default:
      return "(unknown)";
  }
}

bool only_grows(pb::ValueQuantity quantity) {
  return quantity == pb::VALUE_QUANTITY_HITS || quantity == pb::VALUE_QUANTITY_SECONDS ||
         quantity == pb::VALUE_QUANTITY_STOPS;
}

std::string number_text(double number) {
  return std::isnan(number) ? "-" : fmt::format("{:.6g}", number);
}

// Growth per second between consecutive times.
std::vector<double> rates_of(const std::vector<double>& lasts,
                             const pb::GetValueHistoryResponse& values) {
  std::vector<double> rates;
  for (std::size_t i = 1; i < lasts.size(); ++i) {
    const auto at = static_cast<int>(i);
    const double ns = static_cast<double>(values.times_unix_ns(at) - values.times_unix_ns(at - 1));
    rates.push_back((lasts[i] - lasts[i - 1]) / (ns / kNsPerSecond));
  }
  return rates;
}

std::string course_of(std::vector<double> numbers) {
  std::erase_if(numbers, [](double number) { return std::isnan(number); });
  if (numbers.empty()) return "";
  const double floor = std::min(*std::min_element(numbers.begin(), numbers.end()), 0.0);
  for (double& number : numbers) number -= floor;
  return sparkline_of_width(numbers, kCourse, Charset::kUtf8);
}

// The values without unknown ones.
std::vector<double> known(const google::protobuf::RepeatedField<double>& column) {
  std::vector<double> numbers(column.begin(), column.end());
  std::erase_if(numbers, [](double number) { return std::isnan(number); });
  return numbers;
}

void add_row(const pb::ValueSeries& series, const pb::GetValueHistoryResponse& values,
             TextTable& table) {
  const std::vector<double> all(series.lasts().begin(), series.lasts().end());
  const std::vector<double> lasts = known(series.lasts()), lows = known(series.lows()),
                            highs = known(series.highs());
  if (lasts.empty() || lows.empty() || highs.empty()) return;
  pb::Reported named;
  named.set_name(series.name());
  *named.mutable_labels() = series.labels();
  const bool grows = only_grows(series.quantity());
  const std::vector<double> rates = grows ? rates_of(all, values) : all;
  const double seconds =
      all.size() < 2
          ? 0
          : static_cast<double>(*values.times_unix_ns().rbegin() - values.times_unix_ns(0)) /
                kNsPerSecond;
  table.add_row({published_name(named), quantity_text(series.quantity()), course_of(rates),
                 number_text(lasts.front()), number_text(lasts.back()),
                 grows ? "" : number_text(*std::min_element(lows.begin(), lows.end())),
                 grows ? "" : number_text(*std::max_element(highs.begin(), highs.end())),
                 grows && seconds > 0 ? number_text((lasts.back() - lasts.front()) / seconds) : "",
                 printable(series.unit())});
}

std::string phase_line(const pb::PhaseSpan& phase) {
  const std::string begin =
      phase.begin_unix_ns() == 0 ? "before the first record" : utc_text(phase.begin_unix_ns());
  const std::string end = phase.end_unix_ns() == 0 ? "still" : utc_text(phase.end_unix_ns());
  return fmt::format("{} to {}  phase {}\n", begin, end, printable(phase.name()));
}

std::string past_line(const pb::PastLine& line) {
  return fmt::format("{}  {}{}{}\n", utc_text(line.time_unix_ns()), line.is_pause() ? "pause " : "",
                     printable(line.text()), line.is_cut() ? ".." : "");
}

}  // namespace

std::string past_values_text(const pb::GetValueHistoryResponse& values, const Style& style) {
  if (values.times_unix_ns().empty() && values.lines().empty() && values.phases().empty()) {
    return "no published values are recorded for this time\n";
  }
  TextTable table({{"NAME"},
                   {"IS"},
                   {"COURSE"},
                   {"FIRST", Align::kRight},
                   {"LAST", Align::kRight},
                   {"LEAST", Align::kRight},
                   {"MOST", Align::kRight},
                   {"A SECOND", Align::kRight},
                   {"UNIT"}});
  for (const pb::ValueSeries& series : values.series()) add_row(series, values, table);
  std::string text = absl::StrCat(range_text(values.range()), "\n\n",
                                  absl::StrJoin(table.lines(style.width), "\n"), "\n");
  if (!values.phases().empty()) absl::StrAppend(&text, "\n");
  for (const pb::PhaseSpan& phase : values.phases()) absl::StrAppend(&text, phase_line(phase));
  if (!values.lines().empty()) absl::StrAppend(&text, "\nLOG\n");
  for (const pb::PastLine& line : values.lines()) absl::StrAppend(&text, past_line(line));
  return text;
}

}  // namespace memprofd::ctl
