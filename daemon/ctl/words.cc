#include "daemon/ctl/words.h"

#include <ctime>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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
    default:
      return "live";
  }
}

std::string estimate_words(const pb::Estimate& estimate) {
  return format_estimate(estimate.bytes(), estimate.bytes_stderr());
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

std::string median_words(const pb::Lifetime& lifetime) {
  return lifetime.samples() == 0 ? "-" : format_duration(lifetime.p50_seconds());
}

}  // namespace memprofd::ctl
