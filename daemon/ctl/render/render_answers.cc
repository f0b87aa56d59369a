// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_answers.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/ctl/render/sparkline.h"
#include "daemon/ctl/render/text.h"
#include "daemon/ctl/render/text_table.h"
#include "daemon/model/measure.h"
#include "daemon/query/memory_growth.h"
#include "daemon/util/shell_word.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"
#include "re2/re2.h"

namespace memprofd::ctl {
namespace {

std::string joined(const TextTable& table, const Style& style) {
  std::string out;
  for (const std::string& line : table.lines(style.width)) absl::StrAppend(&out, line, "\n");
  return out;
}

std::string signed_text(double change, double standard_error, pb::Measure order) {
  const std::string size = measure_text(std::abs(change), standard_error, order);
  return absl::StrCat(change < 0 ? "-" : "+", size);
}

// Returns 0 if no value is above 0.
MeasureValue highest(const pb::HistorySeries& series) {
  MeasureValue top;
  for (int i = 0; i < series.values_size(); ++i) {
    if (series.values(i) > top.value) top = {series.values(i), series.stderrs(i), {}};
  }
  return top;
}

void add_series(const pb::HistorySeries& series, const std::string& name, pb::Measure measure,
                TextTable& table) {
  if (series.values().empty()) return;
  const int last = series.values_size() - 1;
  const MeasureValue top = highest(series);
  const char* per = measure_row(measure).is_flow() ? "/s" : "";
  table.add_row({measure_text(series.values(last), series.stderrs(last), measure) + per,
                 measure_text(top.value, top.standard_error, measure) + per,
                 sparkline(values_of(series), top.value), name});
}

// Times at which the lines of live memory fall although no block died.
std::string sessions_text(const pb::GetHistoryResponse& response) {
  std::vector<std::string> begins;
  for (int i = 1; i < response.points_size(); ++i) {
    if (response.points(i).session() == response.points(i - 1).session()) continue;
    begins.push_back(utc_text(response.points(i).time_unix_ns()));
  }
  if (begins.empty()) return "";
  constexpr std::size_t kShown = 3;
  const std::size_t more = begins.size() - std::min(begins.size(), kShown);
  begins.erase(begins.begin(), begins.begin() + static_cast<std::ptrdiff_t>(more));
  return absl::StrCat(
      "sampling restarted, and live restarted at zero: ", absl::StrJoin(begins, ", "),
      more > 0 ? absl::StrCat(" and ", more, " times before") : "", "\n");
}

}  // namespace

std::string diff_text(const pb::DiffSitesResponse& response, const pb::DiffSitesRequest& request,
                      const Style& style) {
  const pb::Measure order = request.order();
  const std::string_view word = measure_row(order).title;
  std::string out = absl::StrCat(
      "base   ", range_text(response.base_range()), "\nother  ", range_text(response.other_range()),
      "\n", absl::string_view(word.data(), word.size()), ", other minus base",
      request.per_second() && measure_row(order).is_flow() ? ", change per second" : "", "\n\n");
  TextTable table(
      {{"CHANGE", Align::kRight}, {"BASE", Align::kRight}, {"OTHER", Align::kRight}, {"WHAT"}});
  const bool is_bound = response.sessions_differ() && measure_row(order).blocks == Blocks::kLive;
  // The later side counts all blocks from before the restart.
  const bool base_is_later =
      response.base_range().end_unix_ns() > response.other_range().end_unix_ns();
  const auto change_text = [&](const pb::SiteDiff& diff) {
    if (!is_bound) return signed_text(diff.change(), diff.change_stderr(), order);
    return absl::StrCat(base_is_later ? ">= " : "<= ", signed_text(diff.change(), 0, order));
  };
  const auto add = [&](const pb::SiteDiff& diff, const std::string& name) {
    table.add_row({change_text(diff), measured_text(diff.base(), order),
                   measured_text(diff.other(), order), name});
  };
  for (const pb::SiteDiff& diff : response.diffs()) {
    add(diff, site_text(diff.other(), request.group_by()));
  }
  add(response.total(), absl::StrCat("all ", response.groups()));
  absl::StrAppend(&out, joined(table, style));
  if (is_bound) {
    absl::StrAppend(&out,
                    "\nSampling restarted between the two (after a rate change or a loss). Blocks "
                    "from before the restart are no\nlonger followed and count as live, so a "
                    "change is the most it can be. report --leaks adds up the growth of each "
                    "session.\n");
  }
  return out;
}

std::string callers_text(const pb::ListCallersResponse& response,
                         const pb::ListCallersRequest& request, const Style& style) {
  const pb::Measure order = request.order();
  const std::string_view word = measure_row(order).title;
  TextTable table(
      {{"VALUE", Align::kRight}, {"SHARE", Align::kRight}, {"", Align::kLeft}, {"WHAT"}});
  const MeasureValue total = measured(response.total(), order);
  const auto add = [&](const pb::Site& site, const char* role, const std::string& name) {
    const MeasureValue part = measured(site, order);
    table.add_row(
        {measured_text(site, order),
         format_share_estimate(part.value, part.standard_error, total.value, total.standard_error),
         role, name});
  };
  for (const pb::Site& site : response.callers()) {
    add(site, "caller", site_text(site, pb::GROUP_BY_FUNCTION));
  }
  add(response.total(), "total", printable(request.function()));
  add(response.self(), "self", printable(request.function()));
  for (const pb::Site& site : response.callees()) {
    add(site, "callee", site_text(site, pb::GROUP_BY_FUNCTION));
  }
  return absl::StrCat(absl::string_view(word.data(), word.size()), ", ",
                      range_text(response.range()), "\n\n", joined(table, style));
}

std::string history_text(const pb::GetHistoryResponse& response,
                         const pb::GetHistoryRequest& request, const Style& style) {
  if (response.points().empty()) return "no history yet: wait a second\n";
  std::string out =
      absl::StrCat(range_text(response.range()), ", ", response.points_size(), " steps\n");
  if (response.peak_unix_ns() > 0) {
    absl::StrAppend(&out, "most live: ",
                    format_estimate(response.peak_live_bytes(), response.peak_live_bytes_stderr()),
                    " at ", utc_text(response.peak_unix_ns()), "\n");
  }
  absl::StrAppend(&out, sessions_text(response));
  TextTable table(
      {{"LAST", Align::kRight}, {"HIGHEST", Align::kRight}, {"FROM 0 TO HIGHEST"}, {"WHAT"}});
  for (const pb::HistorySeries& series : response.series()) {
    add_series(series, site_text(series.group(), request.group_by()), request.measure(), table);
  }
  add_series(response.other(), "all others", request.measure(), table);
  return absl::StrCat(out, "\n", joined(table, style));
}

namespace {

// True if sampling restarted in the range, so that only a part of it can be compared.
std::string compared_text(const pb::ListLeaksResponse& response) {
  const auto range_ns =
      static_cast<double>(response.range().end_unix_ns() - response.range().begin_unix_ns());
  if (response.compared_seconds() * 1e9 >= range_ns) return "";
  return absl::StrCat(", compared in ", format_duration(response.compared_seconds()),
                      " of it (within each sampling session, between major collections)");
}

// The smallest leak that would have been found, and a remedy.
std::string uncertainty_text(const pb::ListLeaksResponse& response) {
  const double least = response.least_leak_bytes_per_second();
  if (least <= 0) return "";
  return absl::StrCat("So far only growth above ", format_bytes(least * 3600),
                      " per hour at one site would show. Twice the time, or twice\n"
                      "the sampling rate, halves this limit.\n");
}

const char* area_text(pb::MemoryArea area) {
  if (area == pb::MEMORY_AREA_HEAP) return "OCaml heap with garbage";
  return area == pb::MEMORY_AREA_NATIVE ? "native memory, stacks" : "mapped files, shared";
}

// Never shows 100 %, because the probability rests on assumptions about chance.
std::string confidence_text(double confidence) {
  return absl::StrFormat("%.3g %%", std::min(confidence, 0.999) * 100);
}

std::string not_growing_text(const pb::MemoryGrowth& area) {
  if (area.moments() < kFewestFloors) {
    return area.area() == pb::MEMORY_AREA_HEAP ? "not known yet: too few major collections"
                                               : "not known yet";
  }
  const double change = area.end_bytes() - area.begin_bytes();
  if (std::abs(change) < area.least_growth_bytes()) return "steady";
  return absl::StrCat(change < 0 ? "-" : "+", format_bytes(std::abs(change)),
                      change < 0 ? "" : ", not certain");
}

// One line per area, growing ones first.
std::string memory_text(const pb::ListLeaksResponse& response) {
  if (response.memory().empty()) return "";
  std::vector<const pb::MemoryGrowth*> areas;
  for (const pb::MemoryGrowth& area : response.memory()) areas.push_back(&area);
  std::stable_sort(areas.begin(), areas.end(),
                   [](const auto* a, const auto* b) { return a->grows() && !b->grows(); });
  TextTable table({{"MEMORY"}, {"NOW", Align::kRight}, {"GROWTH"}});
  for (const pb::MemoryGrowth* area : areas) {
    const std::string words =
        area->grows() ? absl::StrCat("+", format_bytes(area->end_bytes() - area->begin_bytes()),
                                     " since ", utc_text(area->since_unix_ns()), ", ",
                                     format_bytes(area->bytes_per_second() * 60), " per minute (",
                                     confidence_text(area->confidence()), " sure)")
                      : not_growing_text(*area);
    table.add_row({area_text(area->area()), format_bytes(area->end_bytes()), words});
  }
  return absl::StrCat(joined(table, {}), "\n");
}

// Facts about a growing site, below its name.
void append_growth(const pb::Leak& leak, std::string& out) {
  absl::StrAppend(&out, "     ",
                  format_estimate(leak.growth_bytes_per_second() * 3600,
                                  leak.growth_bytes_per_second_stderr() * 3600),
                  " per hour; live now ", estimate_text(leak.site().live()));
  if (leak.in_steps()) {
    absl::StrAppend(&out, "; grew in steps, by blocks that each replaced a smaller one\n");
    return;
  }
  absl::StrAppend(&out, ", half of it older than ", format_duration(leak.median_age_seconds()),
                  " (", format_duration(leak.median_age_seconds_lower()), " to ",
                  format_duration(leak.median_age_seconds_upper()), "); grew in ",
                  format_share(leak.steadiness(), 1), " of the steps (",
                  confidence_text(leak.confidence()), " sure)\n");
}

// Sites that grow together, certain or not.
std::string rolled_up_text(const pb::ListLeaksResponse& response) {
  if (response.rolled_up().empty()) return "";
  std::string out =
      response.verdict() == pb::LEAK_VERDICT_GROUPS
          ? "\nNo single site grows by more than chance explains; these together do:\n"
          : "\nSamples do not show yet which code takes it. Largest growth so far, which may "
            "be chance:\n";
  int number = 0;
  for (const pb::LeakGroup& group : response.rolled_up()) {
    const bool is_caller = group.group_by() == pb::GROUP_BY_FUNCTION;
    absl::StrAppendFormat(&out, "\n%3d. %s  %s %s%s\n", ++number,
                          signed_text(group.leak().growth_bytes(),
                                      group.leak().growth_bytes_stderr(), pb::MEASURE_LIVE),
                          is_caller ? "function" : "module",
                          site_text(group.leak().site(), group.group_by()),
                          is_caller ? ", with what it calls" : "");
    append_growth(group.leak(), out);
    append_callstack(group.leak().site(), "       ", kFramesShown, out);
  }
  return out;
}

}  // namespace

std::string containers_text(const pb::ListLeaksResponse& response) {
  if (response.between_snapshots_seconds() <= 0) return "";
  const std::string between = format_duration(response.between_snapshots_seconds());
  if (response.containers().empty()) {
    return absl::StrCat("\nNo variable retains more memory than ", between, " before.\n");
  }
  std::string out =
      absl::StrCat("\nVariables that retain more memory than ", between, " before:\n");
  for (const pb::ContainerChange& container : response.containers()) {
    absl::StrAppend(&out, "  ", printable(container.root()), ": ", printable(container.kind()),
                    ", +", format_bytes(static_cast<double>(container.change_bytes())), " to ",
                    format_bytes(static_cast<double>(container.bytes())));
    if (container.entries() > 0) {
      absl::StrAppend(&out, absl::StrFormat(", %+d to ", container.change_entries()),
                      format_count(container.entries()), " entries");
    }
    if (!container.site().empty()) {
      absl::StrAppend(&out, "; most bytes from ", printable(container.site()));
    }
    out += "\n";
  }
  return out;
}

std::string leaks_text(const pb::ListLeaksResponse& response, pb::GroupBy group_by) {
  const std::string memory = memory_text(response);
  if (response.compared_seconds() <= 0) {
    return absl::StrCat(
        memory, "Nothing to compare yet, ", range_text(response.range()),
        ": growth is compared between major collections\nof one sampling session, and fewer than "
        "three have ended. A rate change or a loss of records\nstarts a new session. Ask again "
        "later, or for a longer range; if records are lost, lower the rate.\n");
  }
  std::string out = absl::StrCat(memory, "Growth of live memory, ", range_text(response.range()),
                                 compared_text(response), ":\n");
  if (response.leaks().empty()) {
    if (!response.rolled_up().empty()) {
      return absl::StrCat(out, rolled_up_text(response), "\n", uncertainty_text(response));
    }
    return absl::StrCat(out, "\nNo significant growth yet.\n", uncertainty_text(response));
  }
  int number = 0;
  for (const pb::Leak& leak : response.leaks()) {
    absl::StrAppendFormat(
        &out, "\n%3d. %s  %s\n", ++number,
        signed_text(leak.growth_bytes(), leak.growth_bytes_stderr(), pb::MEASURE_LIVE),
        site_text(leak.site(), group_by));
    append_growth(leak, out);
    append_callstack(leak.site(), "       ", kFramesShown, out);
  }
  absl::StrAppend(&out,
                  "\nRanked by the lower limit of growth (95 % confidence). A leak grows in every "
                  "step;\na cache that fills grows too, until it is full: ask again later.\n",
                  uncertainty_text(response));
  return out;
}

std::string why_hint(const pb::ListLeaksResponse& response, int pid, const Endpoint& endpoint) {
  if (response.leaks().empty() || response.leaks(0).site().function().empty()) return "";
  const std::string pattern = RE2::QuoteMeta(printable(response.leaks(0).site().function()));
  return absl::StrCat("To see what keeps the first one alive: ",
                      endpoint.command(absl::StrCat("why --pid ", pid, " ", shell_word(pattern))),
                      "\n");
}

}  // namespace memprofd::ctl
