// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_calls.h"

#include <gtest/gtest.h>

#include "daemon/export/api/calls_service.h"

namespace memprofd {
namespace {

CallsReport report() {
  CallsReport report;
  report.functions = {
      {.name = "Parser.start", .calls = 10},
      {.name = "Parser.step", .calls = 12'000},
      {.name = "Parser.never"},
      {.name = "Parser.loop", .why_uncounted = "it loops back to its first instruction"},
      {.name = "Parser.other", .why_uncounted = "it loops back to its first instruction"}};
  report.seconds = 2;
  report.hits = 12'010;
  report.costly = 1;
  return report;
}

TEST(RenderCalls, ThoseThatAreCalledMostComeFirst) {
  EXPECT_EQ(ctl::render_calls(to_proto(report(), 42), {}),
            "2.0 s: 12,010 calls of 5 functions\n"
            "   CALLS  A SECOND  FUNCTION\n"
            "  12,000     6e+03  Parser.step\n"
            "      10         5  Parser.start\n"
            "  not counted: Parser.loop and 1 more: it loops back to its first instruction\n"
            "  1 of them cost the program ten times as much per call as the others\n");
}

TEST(RenderCalls, TimesAreMiddlesOfBuckets) {
  CallsReport timed;
  timed.with_time = true;
  timed.seconds = 2;
  timed.functions = {{.name = "Parser.step",
                      .calls = 12,
                      .times = {.returned = 8,
                                .raised = 2,
                                .running = 1,
                                .lost = 1,
                                .seconds = 0.5,
                                .ns = {.p50 = {1'000'000, 1'200'000},
                                       .p90 = {2'000'000, 2'400'000},
                                       .p99 = {4'000'000'000, ~0ull}},
                                .words = 1'400,
                                .unsized = 1,
                                .words_each = {.p50 = {5, 6}, .p99 = {1'000, 1'200}}}},
                     {.name = "Parser.jump", .calls = 3, .why_untimed = "it is one jump"}};
  EXPECT_EQ(
      ctl::render_calls(to_proto(timed, 42), {}),
      "2.0 s: 15 calls of 2 functions\n"
      "  CALLS  A SECOND    TIME     P50     P90      P99  WORDS  WORDS P99  RAISED  FUNCTION\n"
      "     12         6  500 ms  1.1 ms  2.2 ms  > 4.0 s    200      1,100       2  Parser.step\n"
      "      3       1.5       -       -       -        -      -          -       -  Parser.jump\n"
      "  1 calls have not returned\n"
      "  1 calls were lost\n"
      "  1 calls have ended with an unknown number of words\n"
      "  P50, P90 and P99 are known within 13 %; times include the probes; WORDS are the mean "
      "of a call\n"
      "  not timed: Parser.jump: it is one jump\n");
}

TEST(RenderCalls, TheEndSaysWhy) {
  CallsReport ended;
  ended.functions = {{.name = "A.\x1b[2Jf"}};
  ended.why_ended = "pid 42 has ended";
  EXPECT_EQ(ctl::render_calls(to_proto(ended, 42), {}),
            "0 s: 0 calls of 1 function\n  ended: pid 42 has ended\n");
}

}  // namespace
}  // namespace memprofd
