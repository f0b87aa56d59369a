// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>

#include "daemon/ctl/interrupt.h"
#include "memprof/v1/profiler.pb.h"
#include "tests/kit/temp_dir.h"

namespace memprofd::ctl {
namespace {

using ::testing::ExitedWithCode;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStdout;

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(Output, GoesToTheFileOrToStdout) {
  const TempDir dir;
  const std::string data("a\0b\n", 4);
  EXPECT_TRUE(write_result(data, dir.path("out")).ok());
  EXPECT_EQ(bytes_of(dir.path("out")), data);
  EXPECT_TRUE(write_binary("c", dir.path("out"), "x.pb.gz").ok());
  EXPECT_EQ(bytes_of(dir.path("out")), "c") << "replaced";
  CaptureStdout();
  const absl::Status written = write_result(data, "");
  EXPECT_EQ(GetCapturedStdout(), data);
  EXPECT_TRUE(written.ok()) << written;
}

TEST(Output, SaysWhyAFileCannotBeWritten) {
  const TempDir dir;
  EXPECT_EQ(write_result("x", dir.path("no/such")).message(),
            "cannot write " + dir.path("no/such") + ": No such file or directory");
  EXPECT_EQ(write_result("x", "/dev/full").message(),
            "cannot write /dev/full: No space left on device");
}

TEST(Output, JsonHasTheFieldsOfTheProto) {
  memprof::v1::DiffSitesResponse response;
  response.add_diffs()->set_change(2.5);
  CaptureStdout();
  const absl::Status printed = print_json(response);
  const std::string text = GetCapturedStdout();
  EXPECT_TRUE(printed.ok()) << printed;
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["diffs"][0]["change"], 2.5);
  EXPECT_EQ(json["diffs"][0]["change_stderr"], 0);
  EXPECT_EQ(json["groups"], 0);
  EXPECT_EQ(text.back(), '\n');
}

TEST(Output, AFileIsNoTerminal) {
  CaptureStdout();
  const Style style = stdout_style();
  GetCapturedStdout();
  EXPECT_FALSE(style.color);
  EXPECT_EQ(style.width, 0u);
}

// Runs in separate processes, whose threads all leave the signals to Interrupt.
[[noreturn]] void exit_when_stopped_by(int signal) {
  std::promise<void> stopped;
  Interrupt interrupt;
  interrupt.on_signal([&] { stopped.set_value(); });
  ::kill(::getpid(), signal);
  const bool ok =
      stopped.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  ::_exit(ok ? 7 : 1);
}

[[noreturn]] void exit_without_signal() {
  bool stopped = false;
  {
    const Interrupt unused;
    Interrupt interrupt;
    interrupt.on_signal([&] { stopped = true; });
  }
  ::_exit(stopped ? 1 : 7);
}

TEST(InterruptDeathTest, StopsOnEitherSignal) {
  EXPECT_EXIT(exit_when_stopped_by(SIGINT), ExitedWithCode(7), "");
  EXPECT_EXIT(exit_when_stopped_by(SIGTERM), ExitedWithCode(7), "");
}

TEST(InterruptDeathTest, StopsNothingWhenTheWorkEndsByItself) {
  EXPECT_EXIT(exit_without_signal(), ExitedWithCode(7), "");
}

}  // namespace
}  // namespace memprofd::ctl
