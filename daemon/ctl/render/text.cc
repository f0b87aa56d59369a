// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/text.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/export/formats/recursion.h"
#include "daemon/model/group_key.h"
#include "daemon/model/measure.h"
#include "daemon/model/target_info.h"
#include "daemon/util/drops.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

// "12 events (kernel/ring_full 12)"; n: their number.
std::string drops_text(const pb::Target& target, std::uint64_t n, bool given_up) {
  std::vector<std::string> reasons;
  for (const pb::Drop& drop : target.drops()) {
    if (drop.given_up() != given_up) continue;
    reasons.push_back(
        absl::StrCat(drop.stage(), "/", drop.reason(), " ", format_count(drop.count())));
  }
  return absl::StrCat(format_count(n), " events (", absl::StrJoin(reasons, ", "), ")");
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

std::string samples_text(std::uint64_t samples) {
  return absl::StrCat(format_count(samples), samples == 1 ? " sample" : " samples");
}

std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t kMax = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMax); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", printable(names[i]));
  }
  if (names.size() > kMax) absl::StrAppend(&text, " and ", names.size() - kMax, " more");
  return text;
}

std::string upper_text(std::string_view text) {
  return absl::AsciiStrToUpper(absl::string_view(text.data(), text.size()));
}

std::string_view level_word(pb::FindingLevel level) {
  switch (level) {
    case pb::FINDING_LEVEL_OK:
      return "ok";
    case pb::FINDING_LEVEL_WARNING:
      return "warning";
    case pb::FINDING_LEVEL_UNSPECIFIED:
    case pb::FINDING_LEVEL_PROBLEM:
    case pb::FindingLevel_INT_MIN_SENTINEL_DO_NOT_USE_:
    case pb::FindingLevel_INT_MAX_SENTINEL_DO_NOT_USE_:
      break;
  }
  return "problem";
}

std::string estimate_text(const pb::Estimate& estimate) {
  return format_estimate(estimate.bytes(), estimate.bytes_stderr());
}

std::string share_text(const pb::Estimate& part, const pb::Estimate& whole) {
  return format_share_estimate(part.bytes(), part.bytes_stderr(), whole.bytes(),
                               whole.bytes_stderr());
}

std::string known_text(bool known, const std::string& words) { return known ? words : "-"; }

bool is_observed(const pb::Target& target) {
  return target.mode() == mode_name(TargetMode::kObserve);
}

namespace {

// The requested rate after `between`, if it is higher than the current one.
std::string requested_text(const pb::Target& target, absl::string_view between) {
  const double requested = target.overhead().requested_sampling_rate();
  return requested > target.sampling_rate() ? absl::StrCat(between, requested) : "";
}

}  // namespace

std::string rate_text(const pb::Target& target) {
  return format_rate(target.sampling_rate()) + requested_text(target, ", requested: ");
}

std::string short_rate_text(const pb::Target& target) {
  return absl::StrCat(target.sampling_rate(), requested_text(target, " of "));
}

bool is_active(pb::TargetState state) {
  return state == pb::TARGET_STATE_SAMPLING || state == pb::TARGET_STATE_WAITING;
}

bool is_known(const pb::Site& site, pb::Measure order) {
  return site.has_live() || !site.has_allocated() || !measure_row(order).needs_followed_blocks();
}

std::string missing_text(const pb::Target& target) {
  return absl::StrCat("up to ", format_bytes(target.missing_bytes()),
                      target.state() == pb::TARGET_STATE_SAMPLING
                          ? " more were allocated; later samples make up for them"
                          : " more were allocated");
}

bool used_its_own_tracker(const pb::Target& target) {
  const std::string_view reason = drop_name(Drop::kAgentDomainInUse).reason;
  return std::ranges::any_of(target.drops(),
                             [&](const pb::Drop& drop) { return drop.reason() == reason; });
}

std::string losses_text(const pb::Target& target) {
  if (target.dropped_events() == 0) return "none";
  return absl::StrCat(drops_text(target, target.dropped_events(), false),
                      target.missing_bytes() > 0 ? "; " + missing_text(target) : "");
}

std::string given_up_text(const pb::Target& target) {
  return target.given_up_events() == 0 ? "" : drops_text(target, target.given_up_events(), true);
}

std::string utc_text(std::int64_t unix_ns) {
  const std::time_t seconds = unix_ns / 1'000'000'000;
  std::tm utc{};
  char text[64] = "";
  if (::gmtime_r(&seconds, &utc) != nullptr) {
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  }
  return text;
}

std::string clock_text(std::int64_t unix_ns) {
  const std::string whole = utc_text(unix_ns);
  const std::size_t space = whole.find(' ');
  return space == std::string::npos ? whole : whole.substr(space + 1);
}

std::string live_before_text(const pb::Target& target) {
  if (!target.has_live_before()) return "";
  return absl::StrCat(estimate_text(target.live_before()), " lived at ",
                      clock_text(target.live_since_unix_ns()));
}

std::string live_text(const pb::Target& target) {
  const std::string before = live_before_text(target);
  return absl::StrCat(estimate_text(target.live()), before.empty() ? "" : " (", before,
                      before.empty() ? "" : ")");
}

std::string range_text(const pb::TimeRange& range) {
  const double seconds = static_cast<double>(range.end_unix_ns() - range.begin_unix_ns()) / 1e9;
  return absl::StrCat(utc_text(range.begin_unix_ns()), " to ", utc_text(range.end_unix_ns()), " (",
                      format_duration(seconds), ")");
}

std::string site_text(const pb::Site& site, pb::GroupBy group_by) {
  const GroupRow& key = group_row(group_by);
  if (key.is_number()) {
    return absl::StrCat(absl::string_view(key.word.data(), key.word.size()), " ",
                        number_of(site, key));
  }
  const SiteParts& parts = key.parts;
  const std::string& name = parts.function ? site.function()
                            : parts.file   ? site.file()
                            : parts.unit   ? site.module()
                                           : site.library();
  std::string words = name.empty() ? std::string(key.nothing) : printable(name);
  const std::string place = parts.function ? location_text(site.file(), site.line()) : "";
  if (!place.empty()) absl::StrAppend(&words, "  ", place);
  return words;
}

void append_callstack(const pb::Site& site, const std::string& indent, std::size_t limit,
                      std::string& out) {
  struct Line {
    std::string function, place;
  };
  const int frames = site.callstack_size();
  std::vector<std::uint32_t> from_root, function_of;
  std::map<std::string_view, std::uint32_t> functions;
  for (int i = 0; i < frames; ++i) {
    const auto number = static_cast<std::uint32_t>(functions.size());
    function_of.push_back(functions.emplace(site.callstack(i).function(), number).first->second);
    from_root.push_back(static_cast<std::uint32_t>(frames - 1 - i));
  }
  const std::vector<FoldedFrame> folded = fold_recursion(from_root, function_of);
  const std::size_t shown = limit == 0 ? folded.size() : std::min(limit, folded.size());
  std::vector<Line> lines;
  std::size_t width = 0;
  for (std::size_t i = 0; i < shown; ++i) {
    const FoldedFrame& of = folded[folded.size() - 1 - i];
    const pb::Location& frame = site.callstack(static_cast<int>(of.location));
    lines.push_back({printable(frame.function()), location_text(frame.file(), frame.line())});
    if (of.frames > 1) absl::StrAppend(&lines.back().function, " ×", of.frames);
    width = std::max(width, display_width(lines.back().function));
  }
  for (const Line& line : lines) {
    const std::string gap(width - display_width(line.function) + 2, ' ');
    std::string text = absl::StrCat(indent, line.function, gap, line.place);
    text.erase(text.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, text, "\n");
  }
  if (folded.size() > shown) {
    absl::StrAppend(&out, indent, "... ", folded.size() - shown, " more\n");
  }
}

namespace {

MeasureValue bytes_of(const pb::Site& site, Blocks blocks) {
  MeasureValue sum;
  double below = 0, above = 0;
  for (const char* name : estimate_fields(blocks)) {
    const auto* field = site.GetDescriptor()->FindFieldByName(name);
    const auto& part =
        static_cast<const pb::Estimate&>(site.GetReflection()->GetMessage(site, field));
    sum.value += part.bytes();
    sum.standard_error = std::hypot(sum.standard_error, part.bytes_stderr());
    below = std::hypot(below, part.bytes() - part.bytes_lower());
    above = std::hypot(above, part.bytes_upper() - part.bytes());
  }
  sum.limits = {sum.value - below, sum.value + above};
  return sum;
}

}  // namespace

MeasureValue measured(const pb::Site& site, pb::Measure order) {
  const MeasureRow& measure = measure_row(order);
  switch (measure.unit) {
    case Unit::kBytes:
      return bytes_of(site, measure.blocks);
    case Unit::kBlocks:
      if (measure.blocks == Blocks::kLive) {
        return {site.live_objects(),
                site.live_objects_stderr(),
                {site.live_objects_lower(), site.live_objects_upper()}};
      }
      return {site.allocated_objects(),
              site.allocated_objects_stderr(),
              {site.allocated_objects_lower(), site.allocated_objects_upper()}};
    case Unit::kSamples: {
      const auto samples = static_cast<double>(site.samples());
      return {samples, std::sqrt(samples), count_limits(samples)};
    }
    case Unit::kSeconds:
      break;
  }
  const pb::Lifetime& lifetime = site.lifetime();
  return {lifetime.has_p50_seconds() ? lifetime.p50_seconds() : lifetime.watched_seconds(), 0, {}};
}

std::string measured_text(const pb::Site& site, pb::Measure order) {
  if (!is_known(site, order)) return "-";
  if (measure_row(order).unit == Unit::kSeconds) return median_text(site.lifetime());
  const MeasureValue what = measured(site, order);
  return measure_text(what.value, what.standard_error, order);
}

std::string measure_text(double value, double standard_error, pb::Measure order) {
  switch (measure_row(order).unit) {
    case Unit::kBytes:
      return format_estimate(value, standard_error);
    case Unit::kBlocks:
      return format_count_estimate(value, standard_error);
    case Unit::kSamples:
      return format_count(static_cast<std::uint64_t>(std::llround(std::max(0.0, value))));
    case Unit::kSeconds:
      break;
  }
  return format_duration(value);
}

std::string median_text(const pb::Lifetime& lifetime) {
  if (lifetime.watched_seconds() == 0) return "-";
  return absl::StrCat(lifetime.has_p50_seconds()
                          ? format_duration(lifetime.p50_seconds())
                          : absl::StrCat("> ", format_duration(lifetime.watched_seconds())),
                      " (", format_share(lifetime.alive_ratio(), 1), ")");
}

}  // namespace memprofd::ctl
