// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_model.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/arguments.h"
#include "daemon/ctl/top/top_filter.h"
#include "daemon/ctl/top/top_help.h"
#include "daemon/model/measure.h"

namespace memprofd::ctl {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
// History is exact at ends of seconds, and the present second has not ended.
constexpr std::int64_t kNewestNs = kSecondNs;

constexpr std::array kGroups = {pb::GROUP_BY_SITE, pb::GROUP_BY_FUNCTION, pb::GROUP_BY_FILE,
                                pb::GROUP_BY_MODULE};
constexpr std::array kWindows = {10.0, 60.0, 600.0, 3600.0, 0.0};

// Returns the value after the current one; the first one if the current one is not in the list.
template <typename Values, typename Value>
Value next_of(const Values& values, Value present) {
  const auto at = std::find(values.begin(), values.end(), present);
  return at == values.end() || at + 1 == values.end() ? values.front() : *(at + 1);
}

// The row to which a key moves; nothing if the key does not move.
std::optional<std::size_t> moved(int key, std::size_t at, std::size_t page, std::size_t rows) {
  const std::size_t last = rows == 0 ? 0 : rows - 1;
  switch (key) {
    case kKeyUp:
    case 'k':
      return at - std::min<std::size_t>(at, 1);
    case kKeyDown:
    case 'j':
      return std::min(at + 1, last);
    case kKeyPageUp:
      return at - std::min(at, page);
    case kKeyPageDown:
      return std::min(at + page, last);
    case kKeyHome:
      return 0;
    case kKeyEnd:
      return last;
    default:
      return std::nullopt;
  }
}

bool is_back(int key) { return key == kKeyEscape || key == kKeyBackspace; }

}  // namespace

TopModel::TopModel(TopViewState view_state)
    : view_state_(std::move(view_state)), choose_only_target_(view_state_.pid == 0) {
  if (view_state_.pid == 0) view_state_.view = TopView::kTargets;
}

// ---------------------------------------------------------------- answers

std::size_t TopModel::rows() const {
  return static_cast<std::size_t>(answer_.view_state.view == TopView::kTargets
                                      ? answer_.targets.targets_size()
                                      : answer_.sites.sites_size());
}

const pb::Site* TopModel::selected() const {
  const bool is_site = answer_.view_state.view != TopView::kTargets && cursor_ < rows();
  return is_site ? &answer_.sites.sites(static_cast<int>(cursor_)) : nullptr;
}

// Identifies the same thing in several answers; "" if there is no such row.
std::string TopModel::row_key(std::size_t row) const {
  if (row >= rows()) return "";
  const int i = static_cast<int>(row);
  return answer_.view_state.view == TopView::kTargets
             ? absl::StrCat(answer_.targets.targets(i).pid())
             : group_key(answer_.sites.sites(i), answer_.view_state.row_group());
}

// Moves to the row with this key; if there is none, the cursor stays where it is.
void TopModel::follow(const std::string& key) {
  std::size_t row = 0;
  while (row < rows() && row_key(row) != key) ++row;
  move_to(static_cast<std::ptrdiff_t>(row < rows() ? row : cursor_));
}

void TopModel::take(TopAnswer answer) {
  waiting_seconds_ = 0;
  problem_ = answer.status;
  answered_ = answer.number;
  if (!problem_.ok()) return;
  const TopView before = answer_.view_state.view;
  // The cursor stays in the first row if it is there; otherwise it follows its row.
  std::string key = cursor_ == 0 ? "" : row_key(cursor_);
  answer_ = std::move(answer);
  const TopView now = answer_.view_state.view;
  if (before != now) {
    cursor_ = first_ = 0;
    key = now == TopView::kSites ? group_key(view_state_.drilled, view_state_.group_by) : "";
  }
  follow(key);
  if (now != TopView::kTargets || !choose_only_target_ || !current()) return;
  if (const absl::StatusOr<int> only = choose_pid(0, answer_.targets); only.ok()) {
    choose_target(*only);
  }
}

void TopModel::ask_again() { ++number_; }

void TopModel::show_from_start() {
  cursor_ = first_ = 0;
  ask_again();
}

// ---------------------------------------------------------------- moving

void TopModel::set_page(std::size_t rows) {
  page_ = std::max<std::size_t>(1, rows);
  move_to(static_cast<std::ptrdiff_t>(cursor_));
}

void TopModel::move_to(std::ptrdiff_t row) {
  const auto last = std::max<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(rows()) - 1);
  cursor_ = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(row, 0, last));
  const std::size_t all = rows();
  const std::size_t last_first = all > page_ ? all - page_ : 0;
  first_ = std::min({first_, cursor_, last_first});
  if (cursor_ >= first_ + page_) first_ = cursor_ + 1 - page_;
}

// ---------------------------------------------------------------- keys

void TopModel::press(int key) {
  if (key == kKeyNone || key == kKeyResize) return;
  message_.clear();
  if (overlay_ == TopOverlay::kFilter) return press_filter(key);
  if (key == 'q' || key == 'Q') {
    quit_ = true;
  } else if (overlay_ != TopOverlay::kNone) {
    press_overlay(key);
  } else if (key == 'h' || key == '?') {
    overlay_ = TopOverlay::kHelp;
    overlay_first_ = 0;
  } else if (const auto row = moved(key, cursor_, page_, rows())) {
    move_to(static_cast<std::ptrdiff_t>(*row));
  } else if (key == kKeyTab) {
    list_targets();
  } else if (key == kKeyEnter) {
    go_in();
  } else if (is_back(key)) {
    go_out();
  } else if (view_state_.view != TopView::kTargets) {
    press_view_key(key);
  }
}

void TopModel::press_overlay(int key) {
  const bool is_help = overlay_ == TopOverlay::kHelp;
  const std::size_t lines =
      is_help ? top_help().size() : static_cast<std::size_t>(opened_.callstack_size());
  const std::size_t tops = lines > page_ ? lines - page_ + 1 : 1;
  if (const auto first = moved(key, overlay_first_, page_, tops)) {
    overlay_first_ = *first;
  } else if (is_help || is_back(key) || key == kKeyEnter) {
    overlay_ = TopOverlay::kNone;
  }
}

void TopModel::press_filter(int key) {
  if (key == kKeyEscape) {
    overlay_ = TopOverlay::kNone;
  } else if (key == kKeyEnter) {
    absl::StatusOr<pb::Filter> filter = parse_filter(edit_.text());
    if (!filter.ok()) {
      message_ = std::string(filter.status().message());
      return;
    }
    view_state_.filter = *std::move(filter);
    overlay_ = TopOverlay::kNone;
    show_from_start();
  } else {
    edit_.press(key);
  }
}

void TopModel::press_view_key(int key) {
  if (sort_key(key)) return;
  switch (key) {
    case '<':
    case ',':
      return move_sort(-1);
    case '>':
    case '.':
      return move_sort(1);
    case 'g':
      return next_group();
    case 'w':
      return next_window();
    case '/':
      edit_ = LineEdit(filter_line(view_state_.filter));
      overlay_ = TopOverlay::kFilter;
      return;
    default:
      press_time(key);
  }
}

bool TopModel::sort_key(int key) {
  for (const MeasureRow& column : measures()) {
    if (column.key != key) continue;
    view_state_.order = column.proto;
    show_from_start();
    return true;
  }
  return false;
}

void TopModel::move_sort(int direction) {
  const auto count = static_cast<std::ptrdiff_t>(measures().size());
  const auto at = static_cast<std::ptrdiff_t>(measure_row(view_state_.order).measure);
  view_state_.order = measures()[static_cast<std::size_t>((at + direction + count) % count)].proto;
  show_from_start();
}

void TopModel::next_group() {
  if (view_state_.view != TopView::kSites) {
    message_ = "callstacks have no other groups; Esc returns to the table that g regroups";
    return;
  }
  view_state_.group_by = next_of(kGroups, view_state_.group_by);
  show_from_start();
}

void TopModel::next_window() {
  view_state_.window_seconds = next_of(kWindows, view_state_.window_seconds);
  ask_again();
}

// ---------------------------------------------------------------- in and out

void TopModel::go_in() {
  if (!current()) return;  // the cursor may be on something else than the user saw
  if (view_state_.view == TopView::kTargets) {
    if (cursor_ < rows()) choose_target(answer_.targets.targets(static_cast<int>(cursor_)).pid());
    return;
  }
  const pb::Site* site = selected();
  if (site == nullptr) return;
  if (view_state_.view == TopView::kCallstacks) {
    opened_ = *site;
    overlay_ = TopOverlay::kFrames;
    overlay_first_ = 0;
    return;
  }
  view_state_.drilled = *site;
  view_state_.view = TopView::kCallstacks;
  show_from_start();
}

void TopModel::go_out() {
  if (view_state_.view == TopView::kCallstacks) {
    view_state_.view = TopView::kSites;
    ask_again();
  } else if (view_state_.view == TopView::kTargets && view_state_.pid != 0) {
    choose_target(view_state_.pid);
  }
}

void TopModel::choose_target(int pid) {
  if (pid != view_state_.pid) view_state_.until_ns = 0;
  view_state_.pid = pid;
  view_state_.view = TopView::kSites;
  choose_only_target_ = false;
  show_from_start();
}

void TopModel::list_targets() {
  if (view_state_.view == TopView::kTargets) return go_out();
  view_state_.view = TopView::kTargets;
  show_from_start();
}

// ---------------------------------------------------------------- time

double TopModel::step_seconds() const {
  const double span =
      view_state_.window_seconds > 0 ? view_state_.window_seconds : answer_.seconds();
  return std::max(1.0, span / kTopPoints);
}

void TopModel::pause() {
  if (answer_.view_state.view == TopView::kTargets || answer_.number == 0) return;
  const std::int64_t shown_ns = answer_.view_state.until_ns;
  view_state_.until_ns = shown_ns != 0 ? shown_ns : answer_.sites.range().end_unix_ns() - kNewestNs;
  ask_again();
}

void TopModel::step(double seconds) {
  if (!paused()) pause();
  if (!paused()) return;
  const std::int64_t oldest =
      std::max(answer_.program.target().attached_unix_ns(), answer_.history.oldest_unix_ns()) +
      kSecondNs;
  const std::int64_t newest = std::max(oldest, answer_.program.time_unix_ns() - kNewestNs);
  const std::int64_t wanted = view_state_.until_ns + static_cast<std::int64_t>(seconds * 1e9);
  if (wanted < oldest) message_ = "this is the oldest moment";
  if (wanted > newest) message_ = "this is the newest moment; L returns to live";
  view_state_.until_ns = std::clamp(wanted, oldest, newest);
  ask_again();
}

void TopModel::press_time(int key) {
  const double window =
      view_state_.window_seconds > 0 ? view_state_.window_seconds : 10 * step_seconds();
  switch (key) {
    case ' ':
      if (!paused()) return pause();
      [[fallthrough]];
    case 'L':
      view_state_.until_ns = 0;
      return ask_again();
    case kKeyLeft:
    case '[':
      return step(-step_seconds());
    case kKeyRight:
    case ']':
      return step(step_seconds());
    case '{':
      return step(-window);
    case '}':
      return step(window);
    default:
      return;
  }
}

}  // namespace memprofd::ctl
