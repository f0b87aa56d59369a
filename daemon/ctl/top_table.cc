#include "daemon/ctl/top_table.h"

#include <algorithm>
#include <array>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/ctl/render_table.h"
#include "daemon/ctl/text_table.h"
#include "daemon/ctl/words.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

constexpr TopColumn kColumns[] = {
    {pb::SITE_ORDER_LIVE, 'l', false, "LIVE", "live bytes", 16},
    {pb::SITE_ORDER_ALLOCATED, 'a', true, "ALLOCATED", "allocated bytes", 16},
    {pb::SITE_ORDER_PROMOTED, 'p', true, "PROMOTED", "promoted bytes", 16},
    {pb::SITE_ORDER_DIED_YOUNG, 'y', true, "DIED YOUNG", "died young", 16},
    {pb::SITE_ORDER_DIED_OLD, 'o', true, "DIED OLD", "died old", 16},
    {pb::SITE_ORDER_LIFETIME, 't', false, "P50 LIFETIME", "median lifetime", 13},
    {pb::SITE_ORDER_SAMPLES, 's', false, "SAMPLES", "samples", 10},
    {pb::SITE_ORDER_LIVE_OBJECTS, 'b', false, "LIVE BLOCKS", "live blocks", 13},
    {pb::SITE_ORDER_ALLOCATED_OBJECTS, 'n', true, "BLOCKS", "allocated blocks", 13},
};
// What is left out last comes first.
constexpr pb::SiteOrder kFirst[] = {pb::SITE_ORDER_LIVE, pb::SITE_ORDER_ALLOCATED};
constexpr pb::SiteOrder kSecond[] = {pb::SITE_ORDER_LIFETIME, pb::SITE_ORDER_PROMOTED};
constexpr pb::SiteOrder kThird[] = {pb::SITE_ORDER_SAMPLES, pb::SITE_ORDER_DIED_YOUNG,
                                    pb::SITE_ORDER_DIED_OLD};
constexpr std::size_t kGap = 2;
// Names get so much at least, beside what is most important and beside what is not.
constexpr std::size_t kShortName = 26, kLongName = 44;
constexpr std::size_t kPipeWidth = 140;  // gives text the columns of a screen of this width
constexpr std::size_t kNarrowSparkline = kTopPoints / 3, kWideSparkline = kTopPoints;

struct Layout {
  std::vector<const TopColumn*> columns;
  std::size_t sparkline = 0;  // width
};

// Takes columns while there is room.
class Fitter {
 public:
  explicit Fitter(std::size_t room) : room_(room) {}

  bool take(std::size_t width) {
    if (width + kGap > room_) return false;
    room_ -= width + kGap;
    return true;
  }
  void take(std::span<const pb::SiteOrder> orders) {
    for (const pb::SiteOrder order : orders) {
      if (taken_[order]) continue;
      taken_[order] = take(column(order).min_width);
    }
  }
  // For other things.
  void keep(std::size_t width) { room_ -= std::min(room_, width); }
  // In any case.
  void force(pb::SiteOrder order) {
    room_ -= std::min(room_, column(order).min_width + kGap);
    taken_[order] = true;
  }
  std::vector<const TopColumn*> columns() {
    std::vector<const TopColumn*> result;
    for (const TopColumn& column : kColumns) {
      if (taken_[column.order]) result.push_back(&column);
    }
    return result;
  }

 private:
  static const TopColumn& column(pb::SiteOrder order) {
    return *std::find_if(std::begin(kColumns), std::end(kColumns),
                         [&](const TopColumn& c) { return c.order == order; });
  }

  std::size_t room_;
  std::map<pb::SiteOrder, bool> taken_;
};

Layout layout_of(pb::SiteOrder order, std::size_t width) {
  if (width == 0) width = kPipeWidth;
  Fitter fitter(width - std::min(width, kShortName));
  Layout layout;
  fitter.force(order == pb::SITE_ORDER_UNSPECIFIED ? pb::SITE_ORDER_LIVE : order);
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

const char* name_title(const TopLook& look) {
  switch (look.row_group()) {
    case pb::GROUP_BY_FUNCTION:
      return "FUNCTION";
    case pb::GROUP_BY_FILE:
      return "FILE";
    case pb::GROUP_BY_MODULE:
      return "MODULE";
    case pb::GROUP_BY_LIBRARY:
      return "LIBRARY";
    case pb::GROUP_BY_CALLSTACK:
      return "CALLSTACK";
    case pb::GROUP_BY_THREAD:
      return "THREAD";
    case pb::GROUP_BY_DOMAIN:
      return "DOMAIN";
    default:
      return "SITE";
  }
}

// "Sessions.remember < Server.respond": from the inside out. What all rows have in common,
// the group that was drilled into, is left out where it is the first frame.
std::string callstack_words(const pb::Site& site, const TopLook& look) {
  const bool same_site =
      look.view == TopView::kCallstacks &&
      (look.group_by == pb::GROUP_BY_SITE || look.group_by == pb::GROUP_BY_FUNCTION);
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
        flow_seconds_(answer.look.window_seconds > 0 ? answer.seconds() : 0),
        table_(titles(on_screen)) {
    for (const pb::HistorySeries& series : answer.history.series()) {
      series_[group_key(series.group(), answer.look.row_group())] = &series;
    }
  }

  void add(const pb::Site& site) {
    std::vector<std::string> cells;
    for (const TopColumn* column : layout_.columns) cells.push_back(cell(site, *column));
    if (layout_.sparkline > 0) cells.push_back(history(site));
    cells.push_back(answer_.look.row_group() == pb::GROUP_BY_CALLSTACK
                        ? callstack_words(site, answer_.look)
                        : site_words(site, answer_.look.group_by));
    for (std::string& cell : cells) cell = in_charset(std::move(cell), charset_);
    table_.add_row(std::move(cells));
  }
  std::vector<std::string> lines(std::size_t width) const { return table_.lines(width); }

 private:
  bool per_second(const TopColumn& column) const {
    return column.is_flow && answer_.look.window_seconds > 0;
  }

  std::vector<Column> titles(bool on_screen) const {
    const TopLook& look = answer_.look;
    std::vector<Column> titles;
    for (const TopColumn* column : layout_.columns) {
      const char* sorts = column->order == look.order ? "*" : "";
      titles.push_back({absl::StrCat(column->title, per_second(*column) ? "/S" : "", sorts),
                        Align::kRight, on_screen ? column->min_width : 0});
    }
    const std::string_view measure = order_word(sparkline_measure(look.order));
    if (layout_.sparkline > 0) {
      const std::string title =
          absl::StrCat("HISTORY: ", absl::string_view(measure.data(), measure.size()));
      titles.push_back({title.size() <= layout_.sparkline ? title : "HISTORY", Align::kLeft,
                        on_screen ? layout_.sparkline : 0});
    }
    titles.push_back({name_title(look)});
    return titles;
  }

  std::string cell(const pb::Site& site, const TopColumn& column) const {
    if (column.order == pb::SITE_ORDER_LIFETIME) return median_words(site.lifetime());
    if (!is_known(site, column.order)) return "-";
    const Measured what = measured(site, column.order);
    if (column.order == pb::SITE_ORDER_SAMPLES) return measure_words(what.value, 0, column.order);
    if (!per_second(column)) return measure_words(what.value, what.standard_error, column.order);
    if (flow_seconds_ <= 0) return "-";
    return measure_words(what.value / flow_seconds_, what.standard_error / flow_seconds_,
                         column.order);
  }

  std::string history(const pb::Site& site) const {
    const auto found = series_.find(group_key(site, answer_.look.row_group()));
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

std::span<const TopColumn, 9> top_columns() { return kColumns; }

std::vector<std::string> top_table(const TopAnswer& answer, TopRows rows, std::size_t width,
                                   Charset charset) {
  const Layout layout = layout_of(answer.look.order, width);
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
    table.add_row({printable(frame.function()), location_words(frame.file(), frame.line())});
  }
  std::vector<std::string> lines = table.lines();
  lines.erase(lines.begin());  // the title
  return lines;
}

}  // namespace memprofd::ctl
