// SPDX-License-Identifier: Apache-2.0
// Texts of single facts; every rendering uses these.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/model/location.h"
#include "daemon/util/estimate.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

namespace pb = ::memprof::v1;

std::string bytes_text(std::uint64_t bytes);              // "12.3 MiB"
std::string samples_text(std::uint64_t samples);          // "12 samples"
std::string upper_text(std::string_view text);            // ASCII letters only
std::string_view level_word(pb::FindingLevel level);      // ok, warning, problem
std::string estimate_text(const pb::Estimate& estimate);  // "12.3 MiB ± 0.4"
// "Cache, Path", "Cache, Path, .. and 12 more".
std::string names_text(const std::vector<std::string>& names);
// "12 % ± 3": the share of a part in the whole.
std::string share_text(const pb::Estimate& part, const pb::Estimate& whole);
// The text of a field, or "-" if it is unset because it is unknown.
std::string known_text(bool known, const std::string& words);
bool is_observed(const pb::Target& target);  // in observe mode
bool is_active(pb::TargetState state);       // sampling or waiting
// True if the site's value is known; in observe mode many measures are unknown.
bool is_known(const pb::Site& site, pb::Measure order);
// "1e-05/word (1 sample per 781 KiB)"; if it is lower than requested also ", requested: 0.0001".
std::string rate_text(const pb::Target& target);
// "1e-05"; if it is lower than requested "1e-05 of 0.0001".
std::string short_rate_text(const pb::Target& target);
// "up to 99.0 MiB more were allocated", for a target with missing_bytes.
std::string missing_text(const pb::Target& target);
// True if allocations are missing because the program used Gc.Memprof itself.
bool used_its_own_tracker(const pb::Target& target);
std::string losses_text(const pb::Target& target);  // "none", "12 events (kernel/ring_full 12)"
// The same for deliberate omissions; empty if there are none.
std::string given_up_text(const pb::Target& target);
std::string utc_text(std::int64_t unix_ns);    // "2026-01-31 12:00:00 UTC"
std::string clock_text(std::int64_t unix_ns);  // "12:00:00 UTC"
// "26.0 MiB ± 2.1 lived at 12:00:00 UTC", about the blocks that were last forgotten; empty while
// everything is followed.
std::string live_before_text(const pb::Target& target);
// Live memory, with the text above in parentheses.
std::string live_text(const pb::Target& target);
// "2026-01-31 12:00:00 UTC to 2026-01-31 12:05:00 UTC (5.0 min)".
std::string range_text(const pb::TimeRange& range);
// Name of a group: "Cache.add  cache.ml:12", "cache.ml", "thread 4242".
std::string site_text(const pb::Site& site, pb::GroupBy group_by);
// One line per frame of the site's callstack, innermost first. Recursion is folded: "List.map
// ×252". limit: number of lines, then "... 12 more"; 0: all.
void append_callstack(const pb::Site& site, const std::string& indent, std::size_t limit,
                      std::string& out);
// Limit for texts with several sites.
inline constexpr std::size_t kFramesShown = 24;

// A site's value in the unit of the measure: bytes, blocks, samples, seconds.
struct MeasureValue {
  double value = 0;
  double standard_error = 0;  // 0: not known
  Limits limits;              // 95 %; nothing for lifetimes
};
MeasureValue measured(const pb::Site& site, pb::Measure order);
std::string measured_text(const pb::Site& site, pb::Measure order);
std::string measure_text(double value, double standard_error, pb::Measure order);

inline std::span<const double> values_of(const pb::HistorySeries& series) {
  return {series.values().data(), static_cast<std::size_t>(series.values_size())};
}

// Median lifetime and the share that is alive: "41.6 s (12 %)", "> 46.3 s (86 %)" where the median
// is not reached; "-" when nothing was followed.
std::string median_text(const pb::Lifetime& lifetime);

}  // namespace memprofd::ctl
