#include "daemon/ctl/top_question.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/words.h"
#include "daemon/store/frame_filter.h"
#include "daemon/store/grouper.h"
#include "daemon/util/status_macros.h"
#include "re2/re2.h"

namespace memprofd::ctl {
namespace {

// Whole callstacks are large.
constexpr std::uint32_t kCallstackRows = 200;

std::string exactly(const std::string& text) {
  // A byte that was no UTF-8 in the target is U+FFFD here, and would not match there.
  if (text.empty() || text.find("\uFFFD") != text.npos) return "";
  std::string pattern = absl::StrCat("^", RE2::QuoteMeta(text), "$");
  return pattern.size() <= Patterns::kMaxBytes ? pattern : "";
}

// Whether the module is what functions' names begin with, and not a file.
bool is_unit(const std::string& module) {
  return compilation_unit({.function = module, .module = "a file"}) == module;
}

// Found in every site of the group; empty when nothing is.
std::string pattern_of(const pb::Site& group, pb::GroupBy group_by) {
  switch (group_by) {
    case pb::GROUP_BY_FILE:
      return exactly(group.file());
    case pb::GROUP_BY_MODULE:
      return is_unit(group.module()) ? absl::StrCat("^", RE2::QuoteMeta(group.module()), "(\\.|$)")
                                     : "";
    case pb::GROUP_BY_LIBRARY:
    case pb::GROUP_BY_THREAD:
    case pb::GROUP_BY_DOMAIN:
      return "";
    default:
      return exactly(group.function());
  }
}

// The filter of the look, narrowed to the group that was drilled into: what is left
// is a little more than the group.
pb::Filter filter_of(const TopLook& look) {
  pb::Filter filter = look.filter;
  if (look.view != TopView::kCallstacks) return filter;
  if (look.group_by == pb::GROUP_BY_THREAD) {
    filter.clear_threads();
    filter.add_threads(look.drilled.thread());
  } else if (look.group_by == pb::GROUP_BY_DOMAIN) {
    filter.clear_domains();
    filter.add_domains(look.drilled.domain());
  }
  const std::string pattern = pattern_of(look.drilled, look.group_by);
  if (filter.pattern().empty()) {
    filter.set_pattern(pattern);
  } else if (!pattern.empty()) {
    filter.add_require(pattern);
  }
  return filter;
}

pb::TimeRange range_of(const TopLook& look) {
  pb::TimeRange range;
  range.set_end_unix_ns(look.until_ns);
  range.set_last_seconds(look.window_seconds);
  return range;
}

std::uint32_t limit_of(const TopLook& look) {
  return look.view == TopView::kCallstacks ? kCallstackRows : look.limit;
}

void keep_drilled(const TopLook& look, pb::ListSitesResponse& sites) {
  if (look.view != TopView::kCallstacks) return;
  auto& all = *sites.mutable_sites();
  for (int i = all.size() - 1; i >= 0; --i) {
    if (!in_group(all[i], look.drilled, look.group_by)) all.DeleteSubrange(i, 1);
  }
}

absl::Status ask(Questions& source, TopAnswer& answer) {
  const TopLook& look = answer.look;
  if (look.view == TopView::kTargets) {
    ASSIGN_OR_RETURN(answer.targets, source.list_targets());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(answer.program, source.list_sites(program_request(look)));
  ASSIGN_OR_RETURN(answer.sites, source.list_sites(sites_request(look)));
  // There is no history of what is not known.
  if (is_known(answer.sites.total(), sparkline_measure(look.order))) {
    ASSIGN_OR_RETURN(answer.history, source.get_history(history_request(look)));
  }
  keep_drilled(look, answer.sites);
  return absl::OkStatus();
}

}  // namespace

double TopAnswer::seconds() const {
  const pb::TimeRange& range = sites.range();
  return static_cast<double>(range.end_unix_ns() - range.begin_unix_ns()) / 1e9;
}

pb::SiteOrder sparkline_measure(pb::SiteOrder order) {
  const bool has_history = order != pb::SITE_ORDER_LIFETIME && order != pb::SITE_ORDER_UNSPECIFIED;
  return has_history ? order : pb::SITE_ORDER_LIVE;
}

pb::ListSitesRequest program_request(const TopLook& look) {
  pb::ListSitesRequest request;
  request.set_pid(look.pid);
  *request.mutable_range() = range_of(look);
  request.set_group_by(pb::GROUP_BY_DOMAIN);  // few
  request.set_limit(1);
  request.set_no_callstacks(true);
  return request;
}

pb::ListSitesRequest sites_request(const TopLook& look) {
  pb::ListSitesRequest request;
  request.set_pid(look.pid);
  *request.mutable_range() = range_of(look);
  *request.mutable_filter() = filter_of(look);
  request.set_order(look.order);
  request.set_group_by(look.row_group());
  request.set_limit(limit_of(look));
  request.set_no_callstacks(true);  // those that are groups are there all the same
  return request;
}

pb::GetHistoryRequest history_request(const TopLook& look) {
  pb::GetHistoryRequest request;
  request.mutable_selection()->set_pid(look.pid);
  *request.mutable_selection()->mutable_range() = range_of(look);
  *request.mutable_selection()->mutable_filter() = filter_of(look);
  request.set_group_by(look.row_group());
  request.set_measure(sparkline_measure(look.order));
  // Rows are the largest by a measure of now, these by their mean: more than rows.
  request.set_limit(look.view == TopView::kCallstacks ? kCallstackRows : kTopRows);
  request.set_points(kTopPoints);
  return request;
}

TopAnswer ask_top(Questions& source, const TopLook& look) {
  TopAnswer answer;
  answer.look = look;
  answer.status = ask(source, answer);
  return answer;
}

std::string group_key(const pb::Site& group, pb::GroupBy group_by) {
  pb::Site name;
  name.set_function(group.function());
  name.set_file(group.file());
  name.set_line(group.line());
  name.set_module(group.module());
  name.set_library(group.library());
  name.set_thread(group.thread());
  name.set_domain(group.domain());
  if (group_by == pb::GROUP_BY_CALLSTACK) *name.mutable_callstack() = group.callstack();
  return name.SerializeAsString();
}

bool in_group(const pb::Site& callstack, const pb::Site& group, pb::GroupBy group_by) {
  if (group_by == pb::GROUP_BY_THREAD || group_by == pb::GROUP_BY_DOMAIN) return true;
  const pb::Location site = callstack.callstack().empty() ? pb::Location() : callstack.callstack(0);
  switch (group_by) {
    case pb::GROUP_BY_FUNCTION:
      return callstack.function() == group.function() && callstack.file() == group.file();
    case pb::GROUP_BY_FILE:
      return callstack.file() == group.file();
    case pb::GROUP_BY_MODULE:
      return compilation_unit({.function = site.function(), .module = site.module()}) ==
             group.module();
    case pb::GROUP_BY_LIBRARY:
      return site.module() == group.library();
    case pb::GROUP_BY_CALLSTACK:
      return group_key(callstack, group_by) == group_key(group, group_by);
    default:
      return callstack.function() == group.function() && callstack.file() == group.file() &&
             callstack.line() == group.line();
  }
}

}  // namespace memprofd::ctl
