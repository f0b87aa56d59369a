// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/site_join.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/ctl/group_name.h"
#include "daemon/ctl/render/text.h"
#include "daemon/export/api/query_convert.h"
#include "daemon/model/group_key.h"
#include "daemon/model/measure.h"

namespace memprofd::ctl {
namespace {

using Path = std::vector<std::tuple<std::string, std::string, std::uint32_t>>;
using Name = std::tuple<std::string, std::string, std::uint32_t, std::string, std::string,
                        std::uint32_t, Path>;
// Callstacks may differ in columns only, which are not part of the name. The key therefore also has
// the ordinal among equal names.
using Key = std::pair<Name, int>;

Name sortable_name(const pb::Site& site, pb::GroupBy group_by) {
  const GroupRow& key = group_row(group_by);
  Path path;
  if (key.whole_callstack) {
    for (const pb::Location& frame : site.callstack()) {
      path.emplace_back(frame.function(), frame.file(), frame.line());
    }
  }
  const std::uint32_t number = key.is_number() ? number_of(site, key) : 0;
  return {site.function(), site.file(), site.line(),    site.module(),
          site.library(),  number,      std::move(path)};
}

// A site with this name and zero counts, apart from what the target's rate may have missed.
pb::Site nothing_of(const pb::Site& site, pb::GroupBy group_by, const pb::Target& target) {
  GroupCounts counts;
  counts.unseen.flow = counts.unseen.live = grain_words(target.sampling_rate());
  pb::Site nothing = to_proto(counts);
  nothing.MergeFrom(name_of(site, group_by));
  return nothing;
}

double scale_of(const pb::ListSitesResponse& sites, const pb::DiffSitesRequest& request) {
  if (!request.per_second() || !measure_row(request.order()).is_flow()) return 1;
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
    std::vector<pb::SiteDiff> diffs = pairs();
    for (pb::SiteDiff& diff : diffs) set_change(diff);
    std::stable_sort(diffs.begin(), diffs.end(), [](const auto& a, const auto& b) {
      return std::abs(a.change()) > std::abs(b.change());
    });
    pb::DiffSitesResponse out;
    out.set_groups(static_cast<std::uint32_t>(diffs.size()));
    if (request_.limit() > 0 && diffs.size() > request_.limit()) diffs.resize(request_.limit());
    out.set_total_rows(static_cast<std::uint32_t>(diffs.size()));
    for (pb::SiteDiff& diff : diffs) *out.add_diffs() = std::move(diff);
    *out.mutable_base_range() = base_.range();
    *out.mutable_other_range() = other_.range();
    *out.mutable_total()->mutable_base() = base_.total();
    *out.mutable_total()->mutable_other() = other_.total();
    set_change(*out.mutable_total());
    return out;
  }

 private:
  std::map<Key, const pb::Site*> by_key(const pb::ListSitesResponse& sites) const {
    std::map<Name, int> seen;
    std::map<Key, const pb::Site*> result;
    for (const pb::Site& site : sites.sites()) {
      Name name = sortable_name(site, request_.group_by());
      const int nth = seen[name]++;
      result.emplace(Key(std::move(name), nth), &site);
    }
    return result;
  }

  // Pairs of sites with the same name; both sides are renamed to it.
  std::vector<pb::SiteDiff> pairs() const {
    std::map<Key, std::pair<const pb::Site*, const pb::Site*>> sites;
    for (const auto& [key, site] : by_key(base_)) sites[key].first = site;
    for (const auto& [key, site] : by_key(other_)) sites[key].second = site;
    std::vector<pb::SiteDiff> result;
    for (const auto& [key, pair] : sites) {
      const auto [base, other] = pair;
      pb::SiteDiff& diff = result.emplace_back();
      *diff.mutable_base() =
          base != nullptr ? *base : nothing_of(*other, request_.group_by(), base_.target());
      *diff.mutable_other() =
          other != nullptr ? *other : nothing_of(*base, request_.group_by(), other_.target());
    }
    return result;
  }

  void set_change(pb::SiteDiff& diff) const {
    const MeasureValue before = measured(diff.base(), request_.order());
    const MeasureValue after = measured(diff.other(), request_.order());
    diff.set_change(after.value * other_scale_ - before.value * base_scale_);
    diff.set_change_stderr(
        std::hypot(after.standard_error * other_scale_, before.standard_error * base_scale_));
    if (!measure_row(request_.order()).is_sum()) return;
    const Limits change =
        difference_limits(before.value * base_scale_, before.limits.scaled(base_scale_),
                          after.value * other_scale_, after.limits.scaled(other_scale_));
    diff.set_change_lower(change.lower);
    diff.set_change_upper(change.upper);
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
