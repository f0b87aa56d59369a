// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/units.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "daemon/util/exit_codes.h"
#include "daemon/util/net_address.h"
#include "daemon/util/paths.h"
#include "daemon/util/stop_signal.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

TEST(ParseSize, TakesBinaryAndDecimalUnits) {
  EXPECT_EQ(*parse_size("4096"), 4096u);
  EXPECT_EQ(*parse_size("512KiB"), 512u * 1024);
  EXPECT_EQ(*parse_size("512k"), 512u * 1024);
  EXPECT_EQ(*parse_size(" 1.5 MiB "), 3u << 19);
  EXPECT_EQ(*parse_size("2MB"), 2'000'000u);
  EXPECT_EQ(*parse_size("1gib"), 1u << 30);
  EXPECT_EQ(*parse_size("1e6"), 1'000'000u);
  EXPECT_EQ(*parse_size("1B"), 1u);
}

TEST(ParseSize, RefusesTextThatIsNotASize) {
  for (const char* text : {"", " ", "KiB", "0", "0.5", "-1", "-4k", "+", "nan", "inf", "0x10",
                           "12 parsecs", "1 2", "1..5", "1e", "1e400", "99999999999TiB", "1KiBB"}) {
    EXPECT_EQ(parse_size(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(parse_size("garbage").status().message(),
            "bad size \"garbage\": write a positive number and a unit, such as 512KiB");
}

TEST(ParseDuration, TakesUnitsOfTime) {
  EXPECT_EQ(*parse_duration("90s"), 90);
  EXPECT_EQ(*parse_duration("1.5m"), 90);
  EXPECT_EQ(*parse_duration("2min"), 120);
  EXPECT_EQ(*parse_duration("2h"), 7200);
  EXPECT_EQ(*parse_duration("7d"), 7 * 86400);
  EXPECT_EQ(*parse_duration("250ms"), 0.25);
  EXPECT_EQ(*parse_duration("0"), 0);
  EXPECT_EQ(*parse_duration("36525d"), 36525 * 86400.0);
}

TEST(ParseDuration, RefusesTextThatIsNotADuration) {
  for (const char* text : {"90",
                           "5",
                           "0.5",
                           "",
                           " ",
                           ".",
                           "s",
                           "-1",
                           "-0",
                           "+1",
                           "1 s",
                           " 1s",
                           "1s ",
                           "5M",
                           "1e3",
                           "1..5",
                           "1m30s",
                           "nan",
                           "inf",
                           "0x10",
                           "36526d",
                           "1e400",
                           "99999999999999999999999999999999"}) {
    EXPECT_EQ(parse_duration(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(parse_duration("soon").status().message(),
            "bad duration \"soon\": write a number and a unit, such as 90s, 5m or 2h");
}

TEST(ParseRate, TakesSamplesPerWord) {
  EXPECT_EQ(*parse_rate("1e-5"), 1e-5);
  EXPECT_EQ(*parse_rate("0.0001"), 1e-4);
  EXPECT_EQ(*parse_rate("1"), 1.0);
}

TEST(ParseRate, RefusesTextThatIsNotARate) {
  for (const char* text : {"", "0", "0.0", "-1e-5", "1.0001", "2", "nan", "inf", "-inf", "1e-300",
                           "1e-5x", "0x1p-3", "abc", "1e-5 1e-5"}) {
    EXPECT_EQ(parse_rate(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_FALSE(check_rate(std::numeric_limits<double>::quiet_NaN()).ok());
}

TEST(ParsePercent, TakesThePercentSignOrNot) {
  EXPECT_DOUBLE_EQ(*parse_percent("1%"), 0.01);
  EXPECT_DOUBLE_EQ(*parse_percent("1"), 0.01);
  EXPECT_DOUBLE_EQ(*parse_percent(" 0.5 % "), 0.005);
  EXPECT_DOUBLE_EQ(*parse_percent("100%"), 1);
  EXPECT_DOUBLE_EQ(*parse_budget("0.5%"), 0.005);
  EXPECT_EQ(*parse_budget("none"), 0);
  EXPECT_EQ(parse_budget("0").status().message(),
            "bad percentage \"0\": write a number above 0 and at most 100, such as 1%, or none");
}

TEST(ParsePercent, RefusesTextThatIsNotAShare) {
  for (const char* text : {"", "%", "0", "0%", "-1%", "101%", "1%%", "nan", "1 percent", "1e9"}) {
    EXPECT_EQ(parse_percent(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(parse_percent("much").status().message(),
            "bad percentage \"much\": write a number above 0 and at most 100, such as 1%");
  EXPECT_FALSE(check_share(std::numeric_limits<double>::quiet_NaN()).ok());
}

TEST(ParseSamplingInterval, IsBytesPerSample) {
  EXPECT_DOUBLE_EQ(*parse_sampling_interval("512KiB"), 8.0 / (512 * 1024));
  EXPECT_DOUBLE_EQ(*parse_sampling_interval("8B"), 1.0);
  for (const char* text : {"7B", "0", "-512KiB", "512 parsecs", "nan", "100TB"}) {
    EXPECT_EQ(parse_sampling_interval(text).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(FormatBytes, ShowsThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1023.9), "1.00 KiB");
  EXPECT_EQ(format_bytes(12.345 * 1024 * 1024), "12.3 MiB");
  EXPECT_EQ(format_bytes(781.25 * 1024), "781 KiB");
  EXPECT_EQ(format_bytes(1e15), "909 TiB");
}

TEST(FormatEstimate, ShowsAsManyDigitsAsTheErrorJustifies) {
  constexpr double kMiB = 1 << 20;
  EXPECT_EQ(format_estimate(12.345 * kMiB, 0.4 * kMiB), "12.3 MiB ± 0.4");
  EXPECT_EQ(format_estimate(12.345 * kMiB, 0.04 * kMiB), "12.35 MiB ± 0.04");
  EXPECT_EQ(format_estimate(980 * kMiB, 35 * kMiB), "980 MiB ± 35");
  EXPECT_EQ(format_estimate(2041.2 * kMiB, 4 * kMiB), "1.993 GiB ± 0.004");
  EXPECT_EQ(format_estimate(32 * kMiB + 16 * 1024, 30), "32.016 MiB ± 0.001") << "never ± 0";
  EXPECT_EQ(format_estimate(512, 0.25), "512 B ± 1");
  EXPECT_EQ(format_estimate(0, 0), "0 B");
  EXPECT_EQ(format_estimate(100, 100), "100 B ± 100");
  EXPECT_EQ(format_estimate(2 * kMiB, 0), "2.00 MiB");
}

TEST(FormatDuration, PicksTheUnit) {
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(850e-9), "850 ns");
  EXPECT_EQ(format_duration(3.4e-3), "3.4 ms");
  EXPECT_EQ(format_duration(12.34), "12.3 s");
  EXPECT_EQ(format_duration(59.99), "1.0 min");
  EXPECT_EQ(format_duration(7500), "2.1 h");
  EXPECT_EQ(format_duration(276480), "3.2 d");
  EXPECT_EQ(format_duration_argument(0.0701), "71ms");
  EXPECT_EQ(format_duration_argument(1.21), "1.3s");
  for (const double seconds : {1e-9, 0.0701, 0.9999, 1.21, 60.0}) {
    EXPECT_GE(*parse_duration(format_duration_argument(seconds)), seconds);
  }
}

TEST(FormatOthers, AreReadable) {
  EXPECT_EQ(format_rate(1e-5), "1e-05/word (1 sample per 781 KiB)");
  EXPECT_EQ(format_rate(0), "none");
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(12345678), "12,345,678");
  EXPECT_EQ(format_share(1, 3), "33 %");
  EXPECT_EQ(format_share(1, 250), "0.4 %");
  EXPECT_EQ(format_share(1, 10000), "<0.1 %");
  EXPECT_EQ(format_share(0, 10), "0 %");
  EXPECT_EQ(format_share(1, 0), "-");
}

TEST(Utf8, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(valid_utf8("caf\xC3\xA9"), "caf\xC3\xA9");
  EXPECT_EQ(valid_utf8("a\xFFz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(valid_utf8("\xC3"), "\xEF\xBF\xBD");                                  // cut short
  EXPECT_EQ(valid_utf8("\xC0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // overlong
  EXPECT_EQ(valid_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // surrogate
  EXPECT_EQ(valid_utf8("\xF0\x9F\x90\xAB"), "\xF0\x9F\x90\xAB");
}

TEST(Utf8, PrintableKeepsTheTerminalSafe) {
  EXPECT_EQ(printable("a\x1b[2Jb\nc"), "a?[2Jb?c");
  EXPECT_EQ(printable("\xC2\x9Bx"), "?x");  // C1 control sequence introducer
}

TEST(Utf8, FitsWidthInCodePoints) {
  EXPECT_EQ(display_width("± 0.4"), 5u);
  EXPECT_EQ(fit_width("abcdef", 6), "abcdef");
  EXPECT_EQ(fit_width("abcdef", 4), "abc…");
  EXPECT_EQ(fit_width("ab±def", 4), "ab±…");
  EXPECT_EQ(fit_width("±bcdef", 4, true), "…def");
  EXPECT_EQ(fit_width("abc", 0), "");
}

TEST(NetAddress, ParsesHostAndPort) {
  EXPECT_EQ(parse_net_address("127.0.0.1:9871")->to_string(), "127.0.0.1:9871");
  EXPECT_EQ(parse_net_address("[::1]:80")->host, "::1");
  EXPECT_EQ(parse_net_address("[::1]:80")->to_string(), "[::1]:80");
  EXPECT_EQ(parse_net_address(":0")->host, "");
  for (const char* text : {"", "localhost", "localhost:", "localhost:x", "::1:80", "[::1]", "[]:1",
                           "h:65536", "h:-1", "h:+1", "a b:1", "a,b:1", "/tmp:1"}) {
    EXPECT_EQ(parse_net_address(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(NetAddress, ResolvesToNumbers) {
  EXPECT_EQ(resolve({"localhost", 1})->host, "127.0.0.1");
  EXPECT_EQ(resolve({"", 1})->host, "");
  EXPECT_FALSE(resolve({"no such host.invalid", 1}).ok());
}

TEST(Paths, SocketDependsOnTheUser) {
  EXPECT_EQ(default_grpc_socket(0, "/run/user/0"), "/run/memprofd/memprofd.sock");
  EXPECT_EQ(default_grpc_socket(1000, "/run/user/1000"), "/run/user/1000/memprofd/memprofd.sock");
  EXPECT_EQ(default_grpc_socket(1000, nullptr), "/run/memprofd/memprofd.sock");
  EXPECT_EQ(default_grpc_socket(1000, "relative"), "/run/memprofd/memprofd.sock");
}

TEST(StopSignal, EndsWaitsNowAndLater) {
  StopSignal stop;
  EXPECT_TRUE(stop.wait(std::chrono::nanoseconds(1)));
  bool waited_out = true;
  std::thread waiter([&] { waited_out = stop.wait(std::chrono::hours(1)); });
  stop.stop();
  waiter.join();
  EXPECT_FALSE(waited_out);
  EXPECT_FALSE(stop.wait(std::chrono::hours(1)));
}

TEST(ExitCodes, FollowTheStatus) {
  EXPECT_EQ(exit_code_of(absl::OkStatus()), ExitCode::kOk);
  EXPECT_EQ(exit_code_of(absl::InvalidArgumentError("")), ExitCode::kUsage);
  EXPECT_EQ(exit_code_of(absl::NotFoundError("")), ExitCode::kNoProcess);
  EXPECT_EQ(exit_code_of(absl::FailedPreconditionError("")), ExitCode::kNotProfilable);
  EXPECT_EQ(exit_code_of(absl::PermissionDeniedError("")), ExitCode::kPrivileges);
  EXPECT_EQ(exit_code_of(absl::AlreadyExistsError("")), ExitCode::kBusy);
  EXPECT_EQ(exit_code_of(absl::DataLossError("")), ExitCode::kAgent);
  EXPECT_EQ(exit_code_of(absl::UnavailableError("")), ExitCode::kUnavailable);
  EXPECT_EQ(exit_code_of(absl::AbortedError("")), ExitCode::kUnavailable);
  EXPECT_EQ(exit_code_of(absl::ResourceExhaustedError("")), ExitCode::kLimit);
  EXPECT_EQ(exit_code_of(absl::InternalError("")), ExitCode::kInternal);
  absl::Status older = absl::UnavailableError("");
  older.SetPayload(kOlderDaemonPayload, absl::Cord());
  EXPECT_EQ(exit_code_of(older), ExitCode::kOlderDaemon);
}

}  // namespace
}  // namespace memprofd
