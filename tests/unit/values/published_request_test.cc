// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/published_request.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "daemon/util/clock.h"
#include "tests/unit/values/fake_registry.h"

namespace memprofd {
namespace {

constexpr std::chrono::milliseconds kSoon{5};

// A program that answers by itself, as the library does.
class ReportRequestTest : public ::testing::Test {
 protected:
  ReportRequestTest() {
    registry_.add(MEMPROF_SLOT_POINT, "reload");
    registry_.add(MEMPROF_SLOT_REQUEST, "other").cell = 0;
    registry_.add(MEMPROF_SLOT_REQUEST, "reload").cell = 1;
    registry_.it->head.requests_used = 2;
  }
  memprof_request& record() { return registry_.it->requests[1]; }
  // Waits until it has been asked.
  void answers(const std::string& text, memprof_request_state state = MEMPROF_REQUEST_ANSWERED) {
    registry_.after_read = [this, text, state] {
      const bool is_asked = record().asked != 0 && record().answered != record().asked;
      if (!is_asked || registry_.it->head.asked_last != record().asked) return;
      seen_.assign(record().argument, record().argument_bytes);
      std::memcpy(record().text, text.data(), std::min(text.size(), sizeof record().text));
      record().text_bytes = static_cast<std::uint32_t>(text.size());
      record().state = state;
      record().answered = record().asked;
      record().done = record().seq += 2;
    };
  }
  absl::StatusOr<RequestAnswer> ask(const std::string& argument,
                                    std::chrono::milliseconds timeout = std::chrono::seconds(30),
                                    const std::string& name = "reload") {
    return ask_report(registry_, kRegistryAddress,
                      {.name = name, .argument = argument, .timeout = timeout},
                      [this] { return wanted_; });
  }

  FakeRegistry registry_;
  std::string seen_;
  std::uint64_t begun_ = 0;
  bool wanted_ = true;
};

TEST_F(ReportRequestTest, BringsTheAnswer) {
  answers("it's done");
  for (const std::string argument : {"all of it", ""}) {
    const auto answer = ask(argument);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->text, "it's done");
    EXPECT_FALSE(answer->is_cut);
    EXPECT_EQ(seen_, argument);
  }
  answers(std::string(MEMPROF_REQUEST_TEXT + 1, 'x'));
  const auto long_one = ask("");
  ASSERT_TRUE(long_one.ok());
  EXPECT_EQ(long_one->text.size(), MEMPROF_REQUEST_TEXT);
  EXPECT_TRUE(long_one->is_cut);
}

TEST_F(ReportRequestTest, AnExceptionIsReported) {
  answers("Failure(\"no\x1b\")", MEMPROF_REQUEST_RAISED);
  const absl::Status status = ask("").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "the action 'reload' raised Failure(\"no?\")");
}

TEST_F(ReportRequestTest, IsWithdrawnAfterTheTimeout) {
  const absl::Status status = ask("", kSoon).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message().substr(0, 44), "the program did not start 'reload' within 0.");
  EXPECT_EQ(record().asked, 0u);
  wanted_ = false;
  EXPECT_EQ(ask("").status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(record().asked, 0u);
}

TEST_F(ReportRequestTest, AStartedRequestIsNotWithdrawn) {
  registry_.after_write = [this] {
    if (record().asked != 0) record().running = record().asked;
  };
  const absl::Status status = ask("", kSoon).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message().substr(0, 33), "the program has started 'reload' ");
  EXPECT_EQ(ask("", kSoon).status().code(), absl::StatusCode::kResourceExhausted);
}

// The answer arrives between the last read and the write that withdraws the request.
TEST_F(ReportRequestTest, AnAnswerAtTheLastMomentCounts) {
  registry_.after_write = [this] {
    if (record().asked != 0) begun_ = record().asked;
    if (record().asked != 0 || begun_ == 0) return;
    record().answered = begun_;
    record().state = MEMPROF_REQUEST_ANSWERED;
    record().text_bytes = 0;
  };
  EXPECT_EQ(ask("", kSoon).status(), absl::OkStatus());
}

TEST_F(ReportRequestTest, OneWaitsAtATime) {
  record().asked = monotonic_ns();
  EXPECT_EQ(ask("", kSoon).status().code(), absl::StatusCode::kResourceExhausted);
  record().asked = 1;  // of a memprofd that is no more
  answers("yes");
  EXPECT_EQ(ask("").status(), absl::OkStatus());
}

TEST_F(ReportRequestTest, RefusesWhatMakesNoSense) {
  EXPECT_EQ(ask("", kSoon, "reloads").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ask(std::string(MEMPROF_REQUEST_ARGUMENT + 1, 'x')).status().code(),
            absl::StatusCode::kInvalidArgument);
  registry_.it->head.request_bytes = 0;
  EXPECT_EQ(ask("").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(registry_.writes, 0);
}

}  // namespace
}  // namespace memprofd
