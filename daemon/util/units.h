// SPDX-License-Identifier: Apache-2.0
// Numbers in the form that people write and read: sizes, sampling rates, durations.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/status/statusor.h"

namespace memprofd {

// Below this rate a sample represents terabytes and its variance loses meaning.
inline constexpr double kMinSamplingRate = 1e-12;

// Parses the whole text; nullopt if it is not a number or the number is too large.
template <typename T>
std::optional<T> parse_number(std::string_view text, int base = 10) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "512KiB", "1.5 MB", "4096", "64k". K, M, G, T alone and with "iB" are powers
// of 1024, with "B" powers of 1000; case does not matter. At least 1 byte.
absl::StatusOr<std::uint64_t> parse_size(std::string_view text);

// Seconds: "90s", "1.5m", "2h", "7d", "250ms", "0". Not negative, at most 100 years. A number other
// than 0 needs its unit, because "5" means minutes to one reader and seconds to another.
absl::StatusOr<double> parse_duration(std::string_view text);

// Samples per word, kMinSamplingRate <= rate <= 1: "1e-5", "0.0001".
absl::StatusOr<double> parse_rate(std::string_view text);
// Applies the same check to a number.
absl::Status check_rate(double rate);
// Converts bytes per sample, written as a size of at least one word, into a rate.
absl::StatusOr<double> parse_sampling_interval(std::string_view text);

// A share in percent, "1%", "1" or "0.5 %", above 0 and at most 100. "1%" is 0.01.
absl::StatusOr<double> parse_percent(std::string_view text);
// Like parse_percent; also accepts "none", which is 0.
absl::StatusOr<double> parse_budget(std::string_view text);
// Applies the same check to a number.
absl::Status check_share(double share);

// "0 B", "512 B", "12.3 MiB", "1.21 GiB".
std::string format_bytes(double bytes);
// "12.3 MiB ± 0.4": both in the unit that suits the larger, with as many digits as the error
// justifies, at most three decimals. A smaller error is shown as one of the last digit. Without an
// error the same as format_bytes. The page has the same rule (lib/format.ts).
std::string format_estimate(double bytes, double stderr_bytes);
// "1,234 ± 56". Shows an error below one as one, and omits an unknown one (0).
std::string format_count_estimate(double count, double standard_error);
// A text for parse_duration() that is not shorter than seconds: "95ms", "1.3s".
std::string format_duration_argument(double seconds);
// "850 ns", "3.4 ms", "12.3 s", "4.5 min", "2.1 h", "3.2 d"; "0 s".
std::string format_duration(double seconds);
// "1e-05/word (1 sample per 781 KiB)".
std::string format_rate(double rate);
// "12,345,678".
std::string format_count(std::uint64_t count);
// The share of part in whole in percent: "37 %", "0.4 %", "<0.1 %", "-" if whole is not positive.
std::string format_share(double part, double whole);
// The share between two estimates, of which whole includes part: "37 % ± 3".
std::string format_share_estimate(double part, double part_stderr, double whole,
                                  double whole_stderr);

}  // namespace memprofd
