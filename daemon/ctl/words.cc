#include "daemon/ctl/words.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/store/snapshot.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {

std::string_view level_word(pb::FindingLevel level) {
  switch (level) {
    case pb::FINDING_LEVEL_OK:
      return "ok";
    case pb::FINDING_LEVEL_WARNING:
      return "warning";
    default:
      return "problem";
  }
}

std::string_view order_word(pb::SiteOrder order) {
  switch (order) {
    case pb::SITE_ORDER_ALLOCATED:
      return "allocated";
    case pb::SITE_ORDER_PROMOTED:
      return "promoted";
    case pb::SITE_ORDER_SAMPLES:
      return "samples";
    case pb::SITE_ORDER_LIFETIME:
      return "lifetime";
    case pb::SITE_ORDER_DIED_YOUNG:
      return "died young";
    case pb::SITE_ORDER_DIED_OLD:
      return "died old";
    case pb::SITE_ORDER_ALLOCATED_OBJECTS:
      return "allocated objects";
    case pb::SITE_ORDER_LIVE_OBJECTS:
      return "live objects";
    default:
      return "live";
  }
}

std::string estimate_words(const pb::Estimate& estimate) {
  return format_estimate(estimate.bytes(), estimate.bytes_stderr());
}

std::string known_words(bool known, const std::string& words) { return known ? words : "-"; }

bool is_observed(const pb::Target& target) { return target.mode() == kObserveMode; }

bool is_known(const pb::Site& site, pb::SiteOrder order) {
  return site.has_live() || !site.has_allocated() || order == pb::SITE_ORDER_ALLOCATED ||
         order == pb::SITE_ORDER_SAMPLES || order == pb::SITE_ORDER_ALLOCATED_OBJECTS;
}

std::string location_words(const std::string& file, std::uint32_t line) {
  if (file.empty() || line == 0) return printable(file);
  return absl::StrCat(printable(file), ":", line);
}

std::string losses_words(const pb::Target& target) {
  if (target.dropped_events() == 0) return "none";
  std::vector<std::string> reasons;
  for (const pb::Drop& drop : target.drops()) {
    reasons.push_back(
        absl::StrCat(drop.stage(), "/", drop.reason(), " ", format_count(drop.count())));
  }
  return absl::StrCat(format_count(target.dropped_events()), " events (",
                      absl::StrJoin(reasons, ", "), ")");
}

std::string utc_words(std::int64_t unix_ns) {
  const std::time_t seconds = unix_ns / 1'000'000'000;
  std::tm utc{};
  char text[64] = "";
  if (::gmtime_r(&seconds, &utc) != nullptr) {
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  }
  return text;
}

std::string range_words(const pb::TimeRange& range) {
  const double seconds = static_cast<double>(range.end_unix_ns() - range.begin_unix_ns()) / 1e9;
  return absl::StrCat(utc_words(range.begin_unix_ns()), " to ", utc_words(range.end_unix_ns()),
                      " (", format_duration(seconds), ")");
}

std::string site_words(const pb::Site& site, pb::GroupBy group_by) {
  switch (group_by) {
    case pb::GROUP_BY_FILE:
      return site.file().empty() ? "(no file)" : printable(site.file());
    case pb::GROUP_BY_MODULE:
      return printable(site.module());
    case pb::GROUP_BY_LIBRARY:
      return printable(site.library());
    case pb::GROUP_BY_THREAD:
      return absl::StrCat("thread ", site.thread());
    case pb::GROUP_BY_DOMAIN:
      return absl::StrCat("domain ", site.domain());
    default: {
      const std::string location = location_words(site.file(), site.line());
      return absl::StrCat(printable(site.function()), location.empty() ? "" : "  ", location);
    }
  }
}

void append_frames(const pb::Site& site, const std::string& indent, std::string& out) {
  for (const pb::Location& frame : site.callstack()) {
    absl::StrAppend(&out, indent, printable(frame.function()), "  ",
                    location_words(frame.file(), frame.line()), "\n");
  }
}

bool is_level(pb::SiteOrder order) {
  return order == pb::SITE_ORDER_UNSPECIFIED || order == pb::SITE_ORDER_LIVE ||
         order == pb::SITE_ORDER_LIVE_OBJECTS || order == pb::SITE_ORDER_LIFETIME;
}

Measured measured(const pb::Site& site, pb::SiteOrder order) {
  const auto bytes = [](const pb::Estimate& estimate) {
    return Measured{estimate.bytes(), estimate.bytes_stderr()};
  };
  switch (order) {
    case pb::SITE_ORDER_ALLOCATED:
      return bytes(site.allocated());
    case pb::SITE_ORDER_PROMOTED:
      return bytes(site.promoted());
    case pb::SITE_ORDER_DIED_YOUNG:
      return bytes(site.died_young());
    case pb::SITE_ORDER_DIED_OLD:
      return bytes(site.died_old());
    case pb::SITE_ORDER_SAMPLES:
      return {static_cast<double>(site.samples()), std::sqrt(static_cast<double>(site.samples()))};
    case pb::SITE_ORDER_LIFETIME:
      return {site.lifetime().p50_seconds(), 0};
    case pb::SITE_ORDER_ALLOCATED_OBJECTS:
      return {site.allocated_objects(), 0};
    case pb::SITE_ORDER_LIVE_OBJECTS:
      return {site.live_objects(), 0};
    default:
      return bytes(site.live());
  }
}

std::string measured_words(const pb::Site& site, pb::SiteOrder order) {
  if (!is_known(site, order)) return "-";
  const Measured what = measured(site, order);
  return measure_words(what.value, what.standard_error, order);
}

std::string measure_words(double value, double standard_error, pb::SiteOrder order) {
  switch (order) {
    case pb::SITE_ORDER_SAMPLES:
    case pb::SITE_ORDER_ALLOCATED_OBJECTS:
    case pb::SITE_ORDER_LIVE_OBJECTS:
      return format_count(static_cast<std::uint64_t>(std::llround(std::max(0.0, value))));
    case pb::SITE_ORDER_LIFETIME:
      return format_duration(value);
    default:
      return format_estimate(value, standard_error);
  }
}

std::string median_words(const pb::Lifetime& lifetime) {
  return lifetime.samples() == 0 ? "-" : format_duration(lifetime.p50_seconds());
}

}  // namespace memprofd::ctl
