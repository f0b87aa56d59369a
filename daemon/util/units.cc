// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/units.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "daemon/util/estimate.h"

namespace memprofd {
namespace {

struct Unit {
  std::string_view name;
  double scale;
};

constexpr double kKi = 1024.0;
constexpr std::array<Unit, 14> kSizeSuffixes{{
    {"", 1},
    {"b", 1},
    {"k", kKi},
    {"kib", kKi},
    {"kb", 1e3},
    {"m", kKi* kKi},
    {"mib", kKi* kKi},
    {"mb", 1e6},
    {"g", kKi* kKi* kKi},
    {"gib", kKi* kKi* kKi},
    {"gb", 1e9},
    {"t", kKi* kKi* kKi* kKi},
    {"tib", kKi* kKi* kKi* kKi},
    {"tb", 1e12},
}};

constexpr std::array<Unit, 6> kByteUnits{{
    {"B", 1},
    {"KiB", kKi},
    {"MiB", kKi* kKi},
    {"GiB", kKi* kKi* kKi},
    {"TiB", kKi* kKi* kKi* kKi},
    {"PiB", kKi* kKi* kKi* kKi* kKi},
}};

constexpr std::array<Unit, 7> kDurationUnits{{
    {"ns", 1e-9},
    {"µs", 1e-6},
    {"ms", 1e-3},
    {"s", 1},
    {"min", 60},
    {"h", 3600},
    {"d", 86400},
}};

constexpr std::array<Unit, 7> kDurationSuffixes{
    {{"", 1}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}}};
constexpr double kLongestDuration = 100 * 365.25 * 86400;

// A plain decimal number; no hex, inf or nan.
std::optional<double> parse_decimal(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789.eE+-") != text.npos) return std::nullopt;
  double value = 0;
  if (!absl::SimpleAtod(absl::string_view(text.data(), text.size()), &value)) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

// The largest unit in which value is at least 1; the first one for less.
template <std::size_t N>
const Unit& unit_for(const std::array<Unit, N>& units, double value) {
  for (std::size_t i = N; i-- > 1;) {
    // A value that would be shown as 1000 or more of the smaller unit uses the larger one.
    if (value >= units[i].scale * 0.9995) return units[i];
  }
  return units[0];
}

// For three significant digits.
int decimals_of(double value) { return value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2; }

// For one significant digit of the error.
int decimals_of_error(double error) {
  return std::clamp(-static_cast<int>(std::floor(std::log10(error))), 0, 3);
}

absl::Status bad_size(std::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("bad size \"", absl::string_view(text.data(), text.size()),
                   "\": write a positive number and a unit, such as 512KiB"));
}

}  // namespace

absl::StatusOr<std::uint64_t> parse_size(std::string_view text) {
  const std::string_view whole = text;
  std::string lower = absl::AsciiStrToLower(
      absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size())));
  std::size_t digits = lower.find_first_not_of("0123456789.");
  // An exponent belongs to the number, unless it is the beginning of a unit such as "eb".
  if (digits != lower.npos && lower[digits] == 'e')
    digits = lower.find_first_not_of("0123456789.e+-");
  const std::string number = lower.substr(0, digits);
  std::string suffix = digits == lower.npos ? "" : lower.substr(digits);
  absl::StripLeadingAsciiWhitespace(&suffix);
  const std::optional<double> value = parse_decimal(number);
  const auto unit = std::find_if(kSizeSuffixes.begin(), kSizeSuffixes.end(),
                                 [&](const Unit& u) { return u.name == suffix; });
  if (!value || unit == kSizeSuffixes.end()) return bad_size(whole);
  const double bytes = *value * unit->scale;
  if (bytes < 1 || bytes >= 0x1p63) return bad_size(whole);
  return static_cast<std::uint64_t>(bytes);
}

absl::StatusOr<double> parse_duration(std::string_view text) {
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view suffix = digits == text.npos ? "" : text.substr(digits);
  const std::optional<double> value = parse_decimal(text.substr(0, digits));
  const auto unit = std::find_if(kDurationSuffixes.begin(), kDurationSuffixes.end(),
                                 [&](const Unit& u) { return u.name == suffix; });
  const bool has_unit = !suffix.empty() || value == 0;
  if (!value || unit == kDurationSuffixes.end() || !has_unit ||
      *value * unit->scale > kLongestDuration) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad duration \"", absl::string_view(text.data(), text.size()),
                     "\": write a number and a unit, such as 90s, 5m or 2h"));
  }
  return *value * unit->scale;
}

absl::Status check_rate(double rate) {
  if (rate >= kMinSamplingRate && rate <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "bad sampling rate %g: it is samples per word, from %g to 1, for example 1e-5", rate,
      kMinSamplingRate));
}

absl::StatusOr<double> parse_rate(std::string_view text) {
  const absl::string_view view(text.data(), text.size());
  const absl::string_view trimmed = absl::StripAsciiWhitespace(view);
  const std::optional<double> rate = parse_decimal({trimmed.data(), trimmed.size()});
  if (!rate) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad sampling rate \"", view, "\": write samples per word, for example 1e-5"));
  }
  if (absl::Status status = check_rate(*rate); !status.ok()) return status;
  return *rate;
}

absl::StatusOr<double> parse_sampling_interval(std::string_view text) {
  const absl::StatusOr<std::uint64_t> bytes = parse_size(text);
  if (!bytes.ok()) return bytes.status();
  const double rate = kBytesPerWord / static_cast<double>(*bytes);
  if (rate > 1 || rate < kMinSamplingRate) {
    return absl::InvalidArgumentError(absl::StrCat("bad sampling interval \"",
                                                   absl::string_view(text.data(), text.size()),
                                                   "\": it is bytes per sample, from 8B to 8TB"));
  }
  return rate;
}

absl::Status check_share(double share) {
  if (share > 0 && share <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("bad share %g: it is above 0 and at most 1, for example 0.01", share));
}

absl::StatusOr<double> parse_percent(std::string_view text) {
  absl::string_view view(text.data(), text.size());
  absl::string_view number = absl::StripAsciiWhitespace(view);
  if (absl::ConsumeSuffix(&number, "%")) number = absl::StripTrailingAsciiWhitespace(number);
  const std::optional<double> percent = parse_decimal({number.data(), number.size()});
  if (!percent || !check_share(*percent / 100).ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bad percentage \"", view, "\": write a number above 0 and at most 100, such as 1%"));
  }
  return *percent / 100;
}

absl::StatusOr<double> parse_budget(std::string_view text) {
  if (text == "none") return 0;
  absl::StatusOr<double> share = parse_percent(text);
  if (share.ok()) return share;
  return absl::InvalidArgumentError(absl::StrCat(share.status().message(), ", or none"));
}

std::string format_bytes(double bytes) {
  const Unit& unit = unit_for(kByteUnits, bytes);
  const double value = bytes / unit.scale;
  return absl::StrFormat("%.*f %s", unit.scale == 1 ? 0 : decimals_of(value), value, unit.name);
}

std::string format_estimate(double bytes, double stderr_bytes) {
  if (!(stderr_bytes > 0)) return format_bytes(bytes);
  const Unit& unit = unit_for(kByteUnits, std::max(bytes, stderr_bytes));
  const double error = stderr_bytes / unit.scale;
  const int decimals = unit.scale == 1 ? 0 : decimals_of_error(error);
  return absl::StrFormat("%.*f %s ± %.*f", decimals, bytes / unit.scale, unit.name, decimals,
                         std::max(error, std::pow(10, -decimals)));
}

std::string format_count_estimate(double count, double standard_error) {
  const auto whole = [](double value) {
    return format_count(static_cast<std::uint64_t>(std::llround(std::max(0.0, value))));
  };
  if (!(standard_error > 0)) return whole(count);
  return absl::StrCat(whole(count), " ± ", whole(std::max(1.0, standard_error)));
}

std::string format_duration(double seconds) {
  if (!(seconds > 0)) return "0 s";
  const Unit& unit = unit_for(kDurationUnits, seconds);
  const double value = seconds / unit.scale;
  return absl::StrFormat("%.*f %s", value >= 99.95 ? 0 : 1, value, unit.name);
}

std::string format_duration_argument(double seconds) {
  if (seconds < 1) return absl::StrFormat("%.0fms", std::ceil(seconds * 1e3));
  return absl::StrFormat("%.1fs", std::ceil(seconds * 10) / 10);
}

std::string format_rate(double rate) {
  if (!(rate > 0)) return "none";
  return absl::StrFormat("%g/word (1 sample per %s)", rate, format_bytes(kBytesPerWord / rate));
}

std::string format_count(std::uint64_t count) {
  std::string digits = absl::StrCat(count);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string format_share_estimate(double part, double part_stderr, double whole,
                                  double whole_stderr) {
  if (!(whole > 0)) return "-";
  const double share = part / whole;
  const double rest = std::max(0.0, whole_stderr * whole_stderr - part_stderr * part_stderr);
  const double error = 100 / whole * std::hypot((1 - share) * part_stderr, share * std::sqrt(rest));
  if (!(error > 0.005)) return format_share(part, whole);
  const int decimals = std::clamp(decimals_of_error(error), 0, 2);
  return absl::StrFormat("%.*f %% ± %.*f", decimals, 100 * share, decimals, error);
}

std::string format_share(double part, double whole) {
  if (!(whole > 0)) return "-";
  const double percent = 100 * part / whole;
  if (percent > 0 && percent < 0.05) return "<0.1 %";
  return absl::StrFormat("%.*f %%", percent > 0 && percent < 9.95 ? 1 : 0, percent);
}

}  // namespace memprofd
