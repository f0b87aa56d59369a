// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_table.h"

#include <algorithm>
#include <array>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/ctl/render/render_table.h"
#include "daemon/ctl/render/text.h"
#include "daemon/ctl/render/text_table.h"
#include "daemon/model/group_key.h"
#include "daemon/model/measure.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

// Ordered by importance: the first one is omitted last.
constexpr pb::Measure kFirst[] = {pb::MEASURE_LIVE, pb::MEASURE_ALLOCATED};
constexpr pb::Measure kSecond[] = {pb::MEASURE_LIFETIME, pb::MEASURE_PROMOTED};
constexpr pb::Measure kThird[] = {pb::MEASURE_SAMPLES, pb::MEASURE_DIED_YOUNG,
                                  pb::MEASURE_DIED_OLD};
constexpr std::size_t kGap = 2;
// Minimum width of names beside the most important columns, and beside the others.
constexpr std::size_t kShortName = 26, kLongName = 44;
constexpr std::size_t kPipeWidth = 140;  // gives text the columns of a screen of this width
constexpr std::size_t kNarrowSparkline = kTopPoints / 3, kWideSparkline = kTopPoints;

// On a screen columns have a fixed width, so that they do not jump.
std::size_t min_width(const MeasureRow& column) {
  switch (column.unit) {
    case Unit::kBytes:
      return 16;
    case Unit::kBlocks:
      return 13;
    case Unit::kSeconds:
      return 17;  // "> 10.1 min (86 %)"
    case Unit::kSamples:
      break;
  }
  return 10;
}

struct Layout {
  std::vector<const MeasureRow*> columns;
  std::size_t sparkline = 0;  // width
};

// Adds columns while there is room.
class Fitter {
 public:
  explicit Fitter(std::size_t room) : room_(room) {}

  bool take(std::size_t width) {
    if (width + kGap > room_) return false;
    room_ -= width + kGap;
    return true;
  }
  void take(std::span<const pb::Measure> orders) {
    for (const pb::Measure order : orders) {
      if (taken_[order]) continue;
      taken_[order] = take(min_width(measure_row(order)));
    }
  }
  // Reserves columns for other things.
  void keep(std::size_t width) { room_ -= std::min(room_, width); }
  // Adds the column of this order even if there is no room.
  void force(pb::Measure order) {
    room_ -= std::min(room_, min_width(measure_row(order)) + kGap);
    taken_[order] = true;
  }
  std::vector<const MeasureRow*> columns() {
    std::vector<const MeasureRow*> result;
    for (const MeasureRow& column : measures()) {
      if (taken_[column.proto]) result.push_back(&column);
    }
    return result;
  }

 private:
  std::size_t room_;
  std::map<pb::Measure, bool> taken_;
};

Layout layout_of(pb::Measure order, std::size_t width) {
  if (width == 0) width = kPipeWidth;
  Fitter fitter(width - std::min(width, kShortName));
  Layout layout;
  fitter.force(measure_row(order).proto);
  fitter.take(kFirst);
  if (fitter.take(kNarrowSparkline)) layout.sparkline = kNarrowSparkline;
  fitter.keep(kLongName - kShortName);
  fitter.take(kSecond);
  if (layout.sparkline > 0 && fitter.take(kWideSparkline - kNarrowSparkline)) {
    layout.sparkline = kWideSparkline;
  }
  fitter.take(kThird);
  layout.columns = fitter.columns();
  return layout;
}

// "Sessions.remember < Server.respond", from the inside out. Omits the first frame if it is the
// opened group, which all rows have in common.
std::string callstack_text(const pb::Site& site, const TopViewState& view_state) {
  const bool same_site =
      view_state.view == TopView::kCallstacks &&
      (view_state.group_by == pb::GROUP_BY_SITE || view_state.group_by == pb::GROUP_BY_FUNCTION);
  std::string out;
  for (int i = same_site ? 1 : 0; i < site.callstack_size(); ++i) {
    absl::StrAppend(&out, out.empty() ? "" : " < ", printable(site.callstack(i).function()));
  }
  return out.empty() ? "(no callers)" : out;
}

class TableMaker {
 public:
  TableMaker(const TopAnswer& answer, const Layout& layout, bool on_screen, Charset charset)
      : answer_(answer),
        layout_(layout),
        charset_(charset),
        flow_seconds_(answer.view_state.window_seconds > 0 ? answer.seconds() : 0),
        table_(titles(on_screen)) {
    for (const pb::HistorySeries& series : answer.history.series()) {
      series_[group_key(series.group(), answer.view_state.row_group())] = &series;
    }
  }

  void add(const pb::Site& site) {
    std::vector<std::string> cells;
    for (const MeasureRow* column : layout_.columns) cells.push_back(cell(site, *column));
    if (layout_.sparkline > 0) cells.push_back(history(site));
    cells.push_back(group_row(answer_.view_state.row_group()).whole_callstack
                        ? callstack_text(site, answer_.view_state)
                        : site_text(site, answer_.view_state.group_by));
    for (std::string& cell : cells) cell = in_charset(std::move(cell), charset_);
    table_.add_row(std::move(cells));
  }
  std::vector<std::string> lines(std::size_t width) const { return table_.lines(width); }

 private:
  // The column of samples is not per second, because it shows the basis of all other numbers.
  bool per_second(const MeasureRow& column) const {
    return column.is_flow() && column.unit != Unit::kSamples &&
           answer_.view_state.window_seconds > 0;
  }

  std::vector<Column> titles(bool on_screen) const {
    const TopViewState& view_state = answer_.view_state;
    std::vector<Column> titles;
    for (const MeasureRow* column : layout_.columns) {
      const char* sorts = column->proto == view_state.order ? "*" : "";
      titles.push_back(
          {absl::StrCat(absl::string_view(column->column.data(), column->column.size()),
                        per_second(*column) ? "/S" : "", sorts),
           Align::kRight, on_screen ? min_width(*column) : 0});
    }
    const std::string_view measure = measure_row(sparkline_measure(view_state.order)).title;
    if (layout_.sparkline > 0) {
      const std::string title =
          absl::StrCat("HISTORY: ", absl::string_view(measure.data(), measure.size()));
      titles.push_back({title.size() <= layout_.sparkline ? title : "HISTORY", Align::kLeft,
                        on_screen ? layout_.sparkline : 0});
    }
    titles.push_back({upper_text(group_row(view_state.row_group()).title)});
    return titles;
  }

  std::string cell(const pb::Site& site, const MeasureRow& column) const {
    if (column.unit == Unit::kSeconds) return median_text(site.lifetime());
    if (!is_known(site, column.proto)) return "-";
    const MeasureValue what = measured(site, column.proto);
    if (!per_second(column)) return measure_text(what.value, what.standard_error, column.proto);
    if (flow_seconds_ <= 0) return "-";
    return measure_text(what.value / flow_seconds_, what.standard_error / flow_seconds_,
                        column.proto);
  }

  std::string history(const pb::Site& site) const {
    const auto found = series_.find(group_key(site, answer_.view_state.row_group()));
    if (found == series_.end()) return "";
    return sparkline_of_width(values_of(*found->second), layout_.sparkline, charset_);
  }

  const TopAnswer& answer_;
  const Layout& layout_;
  const Charset charset_;
  const double flow_seconds_;
  TextTable table_;
  std::map<std::string, const pb::HistorySeries*> series_;
};

}  // namespace

std::vector<std::string> top_table(const TopAnswer& answer, TopRows rows, std::size_t width,
                                   Charset charset) {
  const Layout layout = layout_of(answer.view_state.order, width);
  TableMaker table(answer, layout, width > 0, charset);
  const auto all = static_cast<std::size_t>(answer.sites.sites_size());
  const std::size_t end = std::min(all, rows.first + rows.count);
  for (std::size_t i = rows.first; i < end; ++i) {
    table.add(answer.sites.sites(static_cast<int>(i)));
  }
  return table.lines(width);
}

std::vector<std::string> top_targets(const TopAnswer& answer, std::size_t width) {
  const std::string text = targets_table(answer.targets, {.width = width});
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  lines.pop_back();  // behind the last newline
  return lines;
}

std::vector<std::string> frame_lines(const pb::Site& callstack) {
  TextTable table({{""}, {""}});
  for (const pb::Location& frame : callstack.callstack()) {
    table.add_row({printable(frame.function()), location_text(frame.file(), frame.line())});
  }
  std::vector<std::string> lines = table.lines();
  lines.erase(lines.begin());  // the title
  return lines;
}

}  // namespace memprofd::ctl
