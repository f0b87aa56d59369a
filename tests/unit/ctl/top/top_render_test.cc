// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "daemon/ctl/render/render_json.h"
#include "daemon/ctl/top/top_header.h"
#include "daemon/ctl/top/top_help.h"
#include "daemon/model/measure.h"
#include "daemon/util/utf8.h"
#include "tests/kit/fake_questions.h"

namespace memprofd::ctl {
namespace {

using memprofd::testing::FakeQuestions;
using memprofd::testing::fixed_target;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kSecond = 1'000'000'000;

TopViewState view_of(int pid) {
  TopViewState view_state;
  view_state.pid = pid;
  return view_state;
}

// A history in which the sites' live bytes grow, as the fixed target has none.
void add_history(TopAnswer& answer) {
  answer.history.Clear();
  for (int i = 1; i <= 4; ++i) {
    pb::HistoryPoint& point = *answer.history.add_points();
    point.set_time_unix_ns(answer.program.time_unix_ns() - (4 - i) * kSecond);
    point.set_heap_bytes(7u << 20);
    point.set_minor_collections(11);
    point.set_major_collections(5);
    point.set_dropped_events(3);
  }
  for (const pb::Site& site : answer.sites.sites()) {
    pb::HistorySeries& series = *answer.history.add_series();
    *series.mutable_group() = site;
    for (const double value : {0, 1, 2, 7}) series.add_values(value);
  }
}

class TopRenderTest : public ::testing::Test {
 protected:
  explicit TopRenderTest(TopViewState view_state = view_of(4242)) : model_(std::move(view_state)) {
    answer();
  }

  void answer() {
    TopAnswer answer = ask_top(questions_, model_.view_state());
    answer.number = model_.number();
    add_history(answer);
    model_.take(std::move(answer));
  }
  void press(std::initializer_list<int> keys) {
    for (const int key : keys) model_.press(key);
  }
  std::vector<std::string> draw(std::size_t width = 120, std::size_t height = 24,
                                Charset charset = Charset::kUtf8) {
    Picture picture = draw_top(model_, {width, height}, charset);
    model_.set_page(picture.list_rows);
    picture = draw_top(model_, {width, height}, charset);
    std::vector<std::string> lines;
    for (const PaintedLine& line : picture.lines) lines.push_back(line.text);
    return lines;
  }
  std::string text(std::size_t width = 120, std::size_t height = 24,
                   Charset charset = Charset::kUtf8) {
    return absl::StrJoin(draw(width, height, charset), "\n");
  }

  FakeQuestions questions_;
  TopModel model_;
};

TEST_F(TopRenderTest, ShowsTheProgramAndItsSites) {
  const std::vector<std::string> lines = draw();
  ASSERT_EQ(lines.size(), 24u);
  EXPECT_EQ(lines[0],
            "LIVE  server.exe (pid 4242)  OCaml 4.13.1  agent mode  rate 0.001/word (1 sample per "
            "7.81 KiB)");
  EXPECT_EQ(lines[1],
            "live 79.4 MiB ± 0.8  allocated 3.484 MiB ± 0.007 per s  heap 64.0 MiB  gc 1,053 minor "
            "89 major  dropped 9");
  EXPECT_EQ(lines[2], "sites by live: 4  in 10.0 min until 22:23:20 UTC");
  EXPECT_EQ(lines[3], "             LIVE*        ALLOCATED/S        P50 (ALIVE)  HISTORY     SITE");
  EXPECT_EQ(
      lines[4],
      ">   72.5 MiB ± 0.7        130 KiB ± 1   > 8.9 min (95 %)        ▁▂▃█  Sessions.remember  "
      "bin/sessions.ml:27");
  EXPECT_THAT(lines.back(), HasSubstr("q quit"));
  EXPECT_EQ(lines[9], "");
}

TEST_F(TopRenderTest, FitsEveryScreen) {
  const auto check = [&] {
    for (const std::size_t width : {1, 2, 9, 10, 40, 41, 79, 80, 132, 250, 500}) {
      for (const std::size_t height : {1, 2, 3, 4, 5, 9, 10, 15, 16, 24, 60}) {
        for (const Charset charset : {Charset::kUtf8, Charset::kAscii}) {
          const std::vector<std::string> lines = draw(width, height, charset);
          EXPECT_EQ(lines.size(), height);
          for (const std::string& line : lines) EXPECT_LE(display_width(line), width) << line;
        }
      }
    }
  };
  check();
  press({kKeyEnter});
  answer();
  check();  // callstacks
  press({kKeyEnter});
  check();  // frames
  press({kKeyEscape, kKeyEscape, '?'});
  answer();
  check();  // help
  press({'x', '/', '('});
  check();  // filter
  press({kKeyEnter});
  check();  // what is wrong with it
  press({kKeyEscape, kKeyTab});
  answer();
  check();  // targets
}

TEST_F(TopRenderTest, ASmallScreenHasWhatMattersMost) {
  const std::vector<std::string> lines = draw(40, 10);
  EXPECT_THAT(lines[0], HasSubstr("LIVE  server.exe (pid 4242)"));
  EXPECT_THAT(lines[3], HasSubstr("LIVE*  SITE"));
  EXPECT_THAT(lines[4], HasSubstr("Sessions.remember"));
  EXPECT_THAT(lines[9], HasSubstr("q quit  ? help"));
}

TEST_F(TopRenderTest, TheWiderTheMoreColumns) {
  EXPECT_THAT(text(80), HasSubstr("HISTORY"));
  EXPECT_THAT(text(80), Not(HasSubstr("P50 (ALIVE)")));
  EXPECT_THAT(text(160), HasSubstr("PROMOTED/S"));
  EXPECT_THAT(text(250), HasSubstr("DIED OLD/S"));
  EXPECT_THAT(text(250), HasSubstr("HISTORY: live"));
  press({'o'});
  answer();
  EXPECT_THAT(text(40), HasSubstr("DIED OLD/S*"));  // what sorts is always there
}

TEST_F(TopRenderTest, SinceTheAttachFlowsAreSums) {
  press({'w', 'w', 'w'});
  answer();
  EXPECT_THAT(text(), HasSubstr("since the attach until"));
  EXPECT_THAT(text(), HasSubstr("ALLOCATED   "));
  EXPECT_THAT(text(), Not(HasSubstr("/S")));
  EXPECT_THAT(text(), HasSubstr("76.3 MiB ± 0.8"));
}

TEST_F(TopRenderTest, TheListScrolls) {
  press({kKeyEnd});
  const std::vector<std::string> lines = draw(120, 7);  // room for two rows
  EXPECT_THAT(lines[5], HasSubstr("> "));
  EXPECT_THAT(lines[4], Not(HasSubstr("Sessions.remember")));
}

TEST_F(TopRenderTest, ShowsCallstacksAndTheirFrames) {
  press({kKeyEnter});
  answer();
  EXPECT_THAT(text(), HasSubstr("callstacks by live: 1"));
  EXPECT_THAT(text(), HasSubstr("of Sessions.remember  bin/sessions.ml:27"));
  EXPECT_THAT(text(), HasSubstr("Request.handle < Server.loop"));
  const std::vector<std::string> lines = draw();
  const auto title = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("innermost first") != std::string::npos;
  });
  ASSERT_LT(title + 3, lines.end());
  EXPECT_EQ(title[1], "  Sessions.remember  bin/sessions.ml:27");
  EXPECT_EQ(title[2], "  Request.handle     bin/request.ml:40");
  press({kKeyEnter});
  EXPECT_THAT(text(), HasSubstr("3 frames, innermost first"));
  EXPECT_THAT(text(120, 7), HasSubstr("... 2 more"));
  press({kKeyDown});
  EXPECT_THAT(text(120, 7), Not(HasSubstr("  Sessions.remember  bin/sessions.ml:27\n")));
}

TEST_F(TopRenderTest, APauseShowsThatTimesNumbers) {
  press({' '});
  EXPECT_THAT(text(), HasSubstr("PAUSED at 22:23:19 UTC"));
  answer();
  EXPECT_THAT(text(), HasSubstr("heap 7.00 MiB  gc 11 minor 5 major  dropped 3"));
  EXPECT_THAT(text(), HasSubstr("space L live"));
}

TEST_F(TopRenderTest, SaysWhatHinders) {
  TopAnswer failed;
  failed.number = model_.number();
  failed.status = absl::UnavailableError("memprofd does not answer at unix:/x; start it");
  model_.take(failed);
  EXPECT_THAT(text(), HasSubstr("RECONNECTING, as of 22:23:20 UTC"));
  EXPECT_THAT(text(), HasSubstr("memprofd does not answer at unix:/x; start it"));
  EXPECT_THAT(text(), HasSubstr("Sessions.remember"));
  failed.status = absl::NotFoundError("pid 4242 is not a target");
  model_.take(failed);
  EXPECT_THAT(text(), HasSubstr("NO ANSWER, as of 22:23:20 UTC"));
  answer();
  EXPECT_THAT(text(), Not(HasSubstr("NO ANSWER")));
  model_.set_waiting(3);
  EXPECT_THAT(text(), HasSubstr("WAITING for memprofd for 3.0 s"));
}

TEST_F(TopRenderTest, SaysThatATargetHasEnded) {
  auto target = fixed_target();
  target->info.state = TargetState::kExited;
  target->info.message = "exited\x1b[2J";
  questions_.service().set({target});
  answer();
  EXPECT_EQ(draw()[0].substr(0, 6), "EXITED");
  EXPECT_THAT(text(), HasSubstr("exited?[2J"));
}

TEST_F(TopRenderTest, ListsTargets) {
  questions_.service().set({fixed_target(7), fixed_target(9)});
  press({' ', kKeyTab});
  answer();
  press({kKeyDown});
  EXPECT_EQ(draw()[0], "LIVE");  // the list is, the program stays paused
  const std::vector<std::string> lines = draw();
  EXPECT_THAT(text(), HasSubstr("targets of this memprofd"));
  EXPECT_THAT(text(), HasSubstr(">   9  server.exe"));
  EXPECT_THAT(lines.back(), HasSubstr("Enter choose"));
  questions_.service().set({});
  answer();
  EXPECT_THAT(text(), HasSubstr("memprofctl attach PID"));
}

TEST_F(TopRenderTest, TheCursorIsInTheLineThatIsEdited) {
  press({'/', 'a', 'b', 'c', kKeyLeft});
  Picture picture = draw_top(model_, {80, 24}, Charset::kUtf8);
  EXPECT_EQ(picture.lines.back().text, "filter: abc");
  EXPECT_EQ(picture.text_cursor, 10u);
  for (int i = 0; i < 100; ++i) model_.press('x');
  picture = draw_top(model_, {20, 24}, Charset::kUtf8);
  EXPECT_LT(*picture.text_cursor, 20u);
  EXPECT_THAT(picture.lines.back().text, HasSubstr("xxxxx"));
}

TEST_F(TopRenderTest, NamesAreMadePrintable) {
  auto target = fixed_target();
  auto symbolizer = memprofd::testing::fixed_symbolizer();
  symbolizer->table[1].function = "evil\x1b[2J\nname";
  symbolizer->table[1].file = "a\tb";
  target->symbolizer = symbolizer;
  target->info.comm = "co\x1bmm";
  questions_.service().set({target});
  answer();
  const auto is_clean = [](const std::string& text) {
    return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < ' '; });
  };
  for (const std::string& line : draw()) EXPECT_TRUE(is_clean(line)) << line;
  EXPECT_THAT(text(), HasSubstr("evil?[2J?name  a?b:27"));
  press({kKeyEnter});
  answer();
  press({kKeyEnter});
  for (const std::string& line : draw()) EXPECT_TRUE(is_clean(line)) << line;
}

TEST_F(TopRenderTest, AsciiWhereThereIsNoUtf8) {
  const std::string drawn = text(120, 24, Charset::kAscii);
  EXPECT_TRUE(std::all_of(drawn.begin(), drawn.end(), [](char c) { return (c & 0x80) == 0; }));
  EXPECT_THAT(drawn, HasSubstr("72.5 MiB +- 0.7"));
  EXPECT_THAT(drawn, HasSubstr("_.:#"));
}

TEST_F(TopRenderTest, AFrameOfText) {
  const std::string frame = top_text(model_.answer(), Charset::kUtf8);
  EXPECT_THAT(frame, HasSubstr("server.exe (pid 4242)  OCaml 4.13.1"));
  EXPECT_THAT(frame, HasSubstr("PROMOTED/S"));
  EXPECT_THAT(frame, HasSubstr("▁▂▃█"));
  EXPECT_THAT(frame, Not(HasSubstr("\n\n")));
  EXPECT_EQ(frame.back(), '\n');
  EXPECT_EQ(std::count(frame.begin(), frame.end(), '\n'), 3 + 1 + 4);
}

TEST_F(TopRenderTest, AFrameOfJsonIsOneLine) {
  TopAnswer answer = model_.answer();
  answer.history.mutable_series()->RemoveLast();
  const std::string line = top_json(answer).value();
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["target"]["pid"], 4242);
  EXPECT_EQ(json["api_version"], "v1");
  EXPECT_EQ(json["history"]["points"].size(), 4u);
  ASSERT_EQ(json["sites"].size(), 4u);
  EXPECT_EQ(json["sites"][0]["function"], "Sessions.remember");
  const auto& series = json["history"]["series"];
  ASSERT_EQ(series.size(), 3u);
  EXPECT_EQ(series[0]["group"]["function"], "Sessions.remember");
}

TEST(FitPieces, LeavesOutWhatDoesNotFit) {
  EXPECT_THAT(fit_pieces({"aa", "bb", "", "cc"}, 6, 2), ElementsAre("aa  bb", "cc"));
  EXPECT_THAT(fit_pieces({"aa", "bbbbb", "c"}, 6, 1), ElementsAre("aa  c"));
  EXPECT_THAT(fit_pieces({"aaaaaa"}, 3, 1), ElementsAre("aa…"));
  EXPECT_THAT(fit_pieces({"aaaaaa", "b"}, 0, 1), ElementsAre("aaaaaa  b"));
  EXPECT_TRUE(fit_pieces({}, 10, 2).empty());
}

TEST(Sparkline, GoesFromZeroToTheHighest) {
  const std::vector<double> values{0, 1, 3.5, 7, -1};
  EXPECT_EQ(sparkline_of_width(values, 5, Charset::kUtf8), "▁▂▅█▁");
  EXPECT_EQ(sparkline_of_width(values, 5, Charset::kAscii), "_.=#_");
  EXPECT_EQ(sparkline_of_width(values, 8, Charset::kAscii), "   _.=#_");
  EXPECT_EQ(sparkline_of_width(std::vector<double>{0, 0}, 2, Charset::kAscii), "__");
  EXPECT_EQ(sparkline_of_width({}, 3, Charset::kUtf8), "   ");
  EXPECT_EQ(sparkline_of_width(values, 0, Charset::kUtf8), "");
}

TEST(Sparkline, NeighboursGoTogetherWhereThereAreTooMany) {
  // The oldest stands alone.
  EXPECT_EQ(sparkline_of_width(std::vector<double>{7, 0, 2, 3, 4}, 3, Charset::kAscii), "#.=");
  EXPECT_EQ(sparkline_of_width(std::vector<double>(30, 1.0), 10, Charset::kAscii), "##########");
}

TEST(TopHelp, NamesEverySortKey) {
  const std::string help = absl::StrJoin(top_help(), "\n");
  for (const MeasureRow& column : measures()) {
    EXPECT_THAT(help, HasSubstr(absl::StrCat(" ", std::string(1, column.key), "  ",
                                             std::string(column.help))));
  }
  for (const std::string& line : top_help()) EXPECT_LE(display_width(line), 100u);
}

}  // namespace
}  // namespace memprofd::ctl
