// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/query_convert.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/aggregate/survival_curve.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

constexpr std::pair<pb::Fate, Fate> kFates[] = {
    {pb::FATE_UNSPECIFIED, Fate::kAny},
    {pb::FATE_DEAD, Fate::kDead},
    {pb::FATE_ALIVE, Fate::kAlive},
};
constexpr std::pair<pb::Frames, SiteFrame> kFramesOfProto[] = {
    {pb::FRAMES_UNSPECIFIED, SiteFrame::kInnermost},
    {pb::FRAMES_ALL, SiteFrame::kInnermost},
    {pb::FRAMES_APPLICATION, SiteFrame::kApplication},
};
constexpr std::pair<pb::BlockHeap, HeapKind> kHeapsOfProto[] = {
    {pb::BLOCK_HEAP_MINOR, HeapKind::kMinor},
    {pb::BLOCK_HEAP_MAJOR, HeapKind::kMajor},
    {pb::BLOCK_HEAP_EXTERNAL, HeapKind::kExternal},
    {pb::BLOCK_HEAP_C, HeapKind::kC},
};
constexpr std::pair<pb::BlockSource, Source> kSourcesOfProto[] = {
    {pb::BLOCK_SOURCE_NORMAL, Source::kNormal},
    {pb::BLOCK_SOURCE_MARSHAL, Source::kMarshal},
    {pb::BLOCK_SOURCE_CUSTOM, Source::kCustom},
    {pb::BLOCK_SOURCE_MALLOC, Source::kMalloc},
};

absl::Status unknown(const char* what, int value, const char* type) {
  return absl::InvalidArgumentError(
      absl::StrCat("unknown ", what, " ", value, ": use a value of ", type));
}

template <typename Ours, typename Theirs, std::size_t n>
absl::StatusOr<Ours> find(const std::pair<Theirs, Ours> (&table)[n], Theirs value, const char* what,
                          const char* type) {
  for (const auto& [theirs, ours] : table) {
    if (theirs == value) return ours;
  }
  return unknown(what, value, type);
}

// Converts in the opposite direction; 0 is unspecified.
template <typename Ours, typename Theirs, std::size_t n>
Theirs find(const std::pair<Theirs, Ours> (&table)[n], Ours value) {
  for (const auto& [theirs, ours] : table) {
    if (ours == value) return theirs;
  }
  return static_cast<Theirs>(0);
}

absl::Status check_limits(const pb::TimeRange& range) {
  const double last = range.last_seconds();
  if (!std::isfinite(last) || last < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad range: its last ", last, " s; use 0 or more"));
  }
  if (last > 0 && range.begin_unix_ns() != 0) {
    return absl::InvalidArgumentError("bad range: give a beginning or last_seconds, not both");
  }
  const bool limits = last > 0 || range.begin_unix_ns() != 0 || range.end_unix_ns() != 0;
  if (range.until_peak() && limits) {
    return absl::InvalidArgumentError("bad range: give the peak or other limits, not both");
  }
  return absl::OkStatus();
}

// Since the epoch: times below 0 are relative to the last counts. 1 is the earliest, because 0
// would be no limit.
std::uint64_t absolute_ns(std::int64_t time_ns, std::uint64_t now_ns) {
  if (time_ns >= 0) return static_cast<std::uint64_t>(time_ns);
  const std::uint64_t ago_ns = 0 - static_cast<std::uint64_t>(time_ns);
  return ago_ns < now_ns ? now_ns - ago_ns : 1;
}

// Returns 0, the attach, if the result would be before the epoch.
std::uint64_t seconds_before(std::uint64_t end_ns, double seconds) {
  const double ns = seconds * kNsPerSecond;
  if (ns >= static_cast<double>(end_ns)) return 0;
  return end_ns - static_cast<std::uint64_t>(ns);
}

void set_name(const GroupName& name, pb::Site& out) {
  out.set_function(valid_utf8(name.location.function));
  out.set_file(valid_utf8(name.location.file));
  out.set_line(name.location.line);
  out.set_library(valid_utf8(name.location.library));
  out.set_module(valid_utf8(name.unit));
  const GroupRow& key = group_row(name.group_by);
  if (key.is_number()) set_number(name.number, key, out);
}

}  // namespace

absl::StatusOr<TimeRange> from_proto(const pb::TimeRange& range, std::uint64_t now_ns) {
  RETURN_IF_ERROR(check_limits(range));
  TimeRange result;
  result.until_peak = range.until_peak();
  result.begin_ns = absolute_ns(range.begin_unix_ns(), now_ns);
  result.end_ns = absolute_ns(range.end_unix_ns(), now_ns);
  const std::uint64_t end_ns = result.end_ns != 0 ? result.end_ns : now_ns;
  if (range.last_seconds() > 0) result.begin_ns = seconds_before(end_ns, range.last_seconds());
  if (result.begin_ns < end_ns || result.begin_ns == 0) return result;
  const double seconds = static_cast<double>(result.begin_ns - end_ns) / kNsPerSecond;
  return absl::InvalidArgumentError(absl::StrCat("bad range: it begins ", seconds, " s after ",
                                                 result.end_ns != 0 ? "its end" : "the last counts",
                                                 "; it must start before"));
}

absl::StatusOr<Filter> from_proto(const pb::Filter& filter) {
  Filter result;
  if (!filter.pattern().empty()) result.patterns.push_back(filter.pattern());
  result.require.assign(filter.require().begin(), filter.require().end());
  result.forbid.assign(filter.forbid().begin(), filter.forbid().end());
  result.hide.assign(filter.hide().begin(), filter.hide().end());
  result.min_size_bytes = filter.min_size_bytes();
  result.max_size_bytes = filter.max_size_bytes();
  result.lifetime.min_seconds = filter.min_lifetime_seconds();
  result.lifetime.max_seconds = filter.max_lifetime_seconds();
  ASSIGN_OR_RETURN(result.lifetime.fate, from_proto(filter.fate()));
  result.lifetime.allocated_in_range = filter.allocated_in_range();
  if (filter.heap() != pb::BLOCK_HEAP_UNSPECIFIED) {
    ASSIGN_OR_RETURN(result.heap, find(kHeapsOfProto, filter.heap(), "heap", "BlockHeap"));
  }
  if (filter.source() != pb::BLOCK_SOURCE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(result.source,
                     find(kSourcesOfProto, filter.source(), "source", "BlockSource"));
  }
  result.threads.assign(filter.threads().begin(), filter.threads().end());
  result.domains.assign(filter.domains().begin(), filter.domains().end());
  ASSIGN_OR_RETURN(result.site_frame, find(kFramesOfProto, filter.frames(), "frames", "Frames"));
  return result;
}

absl::StatusOr<Measure> from_proto(pb::Measure order) {
  const MeasureRow* row = find_measure(order);
  if (row == nullptr) return unknown("order of sites", order, "Measure");
  return row->measure;
}
absl::StatusOr<GroupBy> from_proto(pb::GroupBy group_by) {
  const GroupRow* row = find_group_key(group_by);
  if (row == nullptr) return unknown("grouping", group_by, "GroupBy");
  return row->group_by;
}
absl::StatusOr<Fate> from_proto(pb::Fate fate) { return find(kFates, fate, "fate", "Fate"); }

pb::BlockSource to_proto(Source source) { return find(kSourcesOfProto, source); }
pb::BlockHeap to_proto(HeapKind heap_kind) { return find(kHeapsOfProto, heap_kind); }

pb::TimeRange to_proto(const TimeRange& range) {
  pb::TimeRange out;
  out.set_begin_unix_ns(static_cast<std::int64_t>(range.begin_ns));
  out.set_end_unix_ns(static_cast<std::int64_t>(range.end_ns));
  out.set_until_peak(range.until_peak);
  return out;
}

pb::Location to_proto(const Location& location) {
  pb::Location out;
  out.set_function(valid_utf8(location.function));
  out.set_file(valid_utf8(location.file));
  out.set_line(location.line);
  out.set_start_column(location.start_column);
  out.set_end_column(location.end_column);
  out.set_library(valid_utf8(location.library));
  return out;
}

namespace {

// Sets limits; returns the quantile in seconds.
std::optional<double> quantile(const SurvivalCurve& curve, double q, pb::LifetimeLimits& limits) {
  const SurvivalCurve::Quantile of = curve.quantile(q);
  limits.set_lower_seconds(of.lower_ns / kNsPerSecond);
  if (of.upper_ns) limits.set_upper_seconds(*of.upper_ns / kNsPerSecond);
  if (!of.ns) return std::nullopt;
  return *of.ns / kNsPerSecond;
}

void fill_curve(const SurvivalCurve& curve, pb::Lifetime& out) {
  if (curve.empty()) return;
  const auto p50 = quantile(curve, 0.5, *out.mutable_p50_limits());
  const auto p90 = quantile(curve, 0.9, *out.mutable_p90_limits());
  const auto p99 = quantile(curve, 0.99, *out.mutable_p99_limits());
  if (p50) out.set_p50_seconds(*p50);
  if (p90) out.set_p90_seconds(*p90);
  if (p99) out.set_p99_seconds(*p99);
  out.set_watched_seconds(curve.watched_ns() / kNsPerSecond);
  out.set_alive_ratio(curve.alive_ratio());
}

}  // namespace

pb::Lifetime lifetime_to_proto(const Counters& counters) {
  pb::Lifetime out;
  fill_curve(SurvivalCurve(counters), out);
  const LifetimeHistogram died = counters.deaths.histogram();
  out.set_samples(died.total());
  for (int i = 0; i < LifetimeHistogram::kBuckets; ++i) {
    if (died.count(i) == 0) continue;
    pb::LifetimeBucket& bucket = *out.add_buckets();
    bucket.set_upper_bound_seconds(LifetimeHistogram::upper_bound_ns(i) / kNsPerSecond);
    bucket.set_count(died.count(i));
    bucket.set_words(died.words(i));
  }
  return out;
}

pb::Site to_proto(const GroupName& name) {
  pb::Site out;
  set_name(name, out);
  for (const auto& location : name.path) *out.add_callstack() = to_proto(*location);
  return out;
}

pb::Site to_proto(const GroupCounts& counts) {
  pb::Site out;
  const Counters& counters = counts.counters;
  const UnseenWords& unseen = counts.unseen;
  const auto& died = counters.deallocated;
  out.set_samples(counters.allocated.samples);
  *out.mutable_allocated() = to_proto(counters.allocated, unseen.flow, unseen.missing);
  *out.mutable_promoted() = to_proto(counters.promoted, unseen.flow, unseen.missing);
  *out.mutable_live() = to_proto(counters.live, unseen.live, unseen.missing);
  if (counters.resident.samples > 0) {
    *out.mutable_resident() = to_proto(counters.resident, unseen.live, unseen.missing);
  }
  *out.mutable_died_young() =
      to_proto(died[static_cast<int>(Heap::kMinor)], unseen.flow, unseen.missing);
  *out.mutable_died_old() =
      to_proto(died[static_cast<int>(Heap::kMajor)], unseen.flow, unseen.missing);
  *out.mutable_lifetime() = lifetime_to_proto(counters);
  out.set_allocated_objects(counters.allocated_objects);
  out.set_live_objects(counters.live_objects);
  out.set_allocated_objects_stderr(measure_stderr(counts, Measure::kAllocatedObjects));
  out.set_live_objects_stderr(measure_stderr(counts, Measure::kLiveObjects));
  const Limits allocated = measure_limits(counts, Measure::kAllocatedObjects);
  out.set_allocated_objects_lower(allocated.lower);
  out.set_allocated_objects_upper(allocated.upper);
  const Limits live = measure_limits(counts, Measure::kLiveObjects);
  out.set_live_objects_lower(live.lower);
  out.set_live_objects_upper(live.upper);
  return out;
}

pb::Site to_proto(const Group& group) {
  pb::Site out = to_proto(static_cast<const GroupCounts&>(group));
  set_name(group, out);
  for (const Location& location : group.callstack) *out.add_callstack() = to_proto(location);
  return out;
}

pb::SiteDiff to_proto(const GroupDiff& diff) {
  pb::SiteDiff out;
  *out.mutable_base() = to_proto(diff.base);
  *out.mutable_other() = to_proto(diff.other);
  out.set_change(diff.change);
  out.set_change_stderr(diff.change_stderr);
  out.set_change_lower(diff.change_limits.lower);
  out.set_change_upper(diff.change_limits.upper);
  return out;
}

}  // namespace memprofd
