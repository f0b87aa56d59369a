#include "daemon/ctl/site_join.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "daemon/ctl/words.h"

namespace memprofd::ctl {
namespace {

using Path = std::vector<std::tuple<std::string, std::string, std::uint32_t>>;
using Key = std::tuple<std::string, std::string, std::uint32_t, std::string, std::string,
                       std::uint32_t, std::uint32_t, Path>;

Key key_of(const pb::Site& site, pb::GroupBy group_by) {
  Path path;
  if (group_by == pb::GROUP_BY_CALLSTACK) {
    for (const pb::Location& frame : site.callstack()) {
      path.emplace_back(frame.function(), frame.file(), frame.line());
    }
  }
  return {site.function(), site.file(),   site.line(),   site.module(),
          site.library(),  site.thread(), site.domain(), std::move(path)};
}

bool is_flow(pb::SiteOrder order) {
  return order != pb::SITE_ORDER_UNSPECIFIED && order != pb::SITE_ORDER_LIVE &&
         order != pb::SITE_ORDER_LIVE_OBJECTS && order != pb::SITE_ORDER_LIFETIME;
}

double scale_of(const pb::ListSitesResponse& sites, const pb::DiffSitesRequest& request) {
  if (!request.per_second() || !is_flow(request.order())) return 1;
  const auto ns = static_cast<double>(sites.range().end_unix_ns() - sites.range().begin_unix_ns());
  return ns > 0 ? 1e9 / ns : 0;
}

class Joiner {
 public:
  Joiner(const pb::ListSitesResponse& base, const pb::ListSitesResponse& other,
         const pb::DiffSitesRequest& request)
      : base_(base),
        other_(other),
        request_(request),
        base_scale_(scale_of(base, request)),
        other_scale_(scale_of(other, request)) {}

  pb::DiffSitesResponse join() {
    std::map<Key, pb::SiteDiff> pairs;
    for (const pb::Site& site : base_.sites()) {
      *pairs[key_of(site, request_.group_by())].mutable_base() = site;
    }
    for (const pb::Site& site : other_.sites()) {
      *pairs[key_of(site, request_.group_by())].mutable_other() = site;
    }
    std::vector<pb::SiteDiff> diffs;
    for (auto& [key, diff] : pairs) diffs.push_back(with_change(std::move(diff)));
    std::stable_sort(diffs.begin(), diffs.end(), [](const auto& a, const auto& b) {
      return std::abs(a.change()) > std::abs(b.change());
    });
    pb::DiffSitesResponse out;
    out.set_groups(static_cast<std::uint32_t>(diffs.size()));
    if (request_.limit() > 0 && diffs.size() > request_.limit()) diffs.resize(request_.limit());
    for (pb::SiteDiff& diff : diffs) *out.add_diffs() = std::move(diff);
    *out.mutable_base_range() = base_.range();
    *out.mutable_other_range() = other_.range();
    pb::SiteDiff total;
    *total.mutable_base() = base_.total();
    *total.mutable_other() = other_.total();
    *out.mutable_total() = with_change(std::move(total));
    return out;
  }

 private:
  pb::SiteDiff with_change(pb::SiteDiff diff) const {
    const Measured before = measured(diff.base(), request_.order());
    const Measured after = measured(diff.other(), request_.order());
    diff.set_change(after.value * other_scale_ - before.value * base_scale_);
    diff.set_change_stderr(
        std::hypot(after.standard_error * other_scale_, before.standard_error * base_scale_));
    return diff;
  }

  const pb::ListSitesResponse& base_;
  const pb::ListSitesResponse& other_;
  const pb::DiffSitesRequest& request_;
  const double base_scale_;
  const double other_scale_;
};

}  // namespace

pb::DiffSitesResponse join_sites(const pb::ListSitesResponse& base,
                                 const pb::ListSitesResponse& other,
                                 const pb::DiffSitesRequest& request) {
  return Joiner(base, other, request).join();
}

}  // namespace memprofd::ctl
