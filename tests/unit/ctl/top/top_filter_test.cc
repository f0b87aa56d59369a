// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/ctl/top/line_edit.h"

namespace memprofd::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

pb::Filter parsed(std::string_view line) {
  const auto filter = parse_filter(line);
  EXPECT_TRUE(filter.ok()) << line << ": " << filter.status();
  return filter.ok() ? *filter : pb::Filter();
}

std::string refusal(std::string_view line) {
  const auto filter = parse_filter(line);
  EXPECT_EQ(filter.status().code(), absl::StatusCode::kInvalidArgument) << line;
  return std::string(filter.status().message());
}

TEST(TopFilter, NothingIsEverything) {
  pb::Filter everything;
  everything.set_frames(pb::FRAMES_APPLICATION);
  EXPECT_EQ(parsed("").SerializeAsString(), everything.SerializeAsString());
  EXPECT_EQ(parsed("   ").SerializeAsString(), everything.SerializeAsString());
  EXPECT_EQ(filter_line(everything), "");
  EXPECT_EQ(filter_line({}), "");
}

TEST(TopFilter, AWordIsAPattern) {
  EXPECT_EQ(parsed("Cache\\.add").pattern(), "Cache\\.add");
  EXPECT_EQ(parsed("'a b'").pattern(), "a b");
  EXPECT_EQ(parsed("-m Cache").pattern(), "Cache");
}

TEST(TopFilter, TakesTheOptionsOfTheCommandLine) {
  const pb::Filter filter = parsed(
      "Cache --require a --require 'b c' --forbid d --hide \"it's\" --min-size 1KiB "
      "--max-size 2k --heap major --source marshal --thread 7 --domain 0");
  EXPECT_EQ(filter.pattern(), "Cache");
  EXPECT_THAT(filter.require(), ElementsAre("a", "b c"));
  EXPECT_THAT(filter.forbid(), ElementsAre("d"));
  EXPECT_THAT(filter.hide(), ElementsAre("it's"));
  EXPECT_EQ(filter.min_size_bytes(), 1024u);
  EXPECT_EQ(filter.heap(), pb::BLOCK_HEAP_MAJOR);
  EXPECT_EQ(filter.source(), pb::BLOCK_SOURCE_MARSHAL);
  EXPECT_THAT(filter.threads(), ElementsAre(7u));
  EXPECT_THAT(filter.domains(), ElementsAre(0u));
}

TEST(TopFilter, ALineSaysTheSameFilterAgain) {
  for (const char* line :
       {"--match Cache", "--match 'a b'", "--match=-x --forbid=--", "--frames all",
        "--hide \"it's\"",
        "--require a --require b --min-size 1024 --max-size 4096 --heap minor --source custom "
        "--thread 7 --thread 8 --domain 1"}) {
    EXPECT_EQ(filter_line(parsed(line)), line);
  }
  EXPECT_EQ(parsed("--heap external").heap(), pb::BLOCK_HEAP_EXTERNAL);
  EXPECT_EQ(filter_line(parsed("--heap external")), "--heap external");
  const pb::Filter filter = parsed("Cache --heap minor");
  EXPECT_EQ(parsed(filter_line(filter)).SerializeAsString(), filter.SerializeAsString());
}

TEST(TopFilter, SaysWhatIsWrong) {
  EXPECT_THAT(refusal("("), HasSubstr("missing )"));
  EXPECT_THAT(refusal("--require '['"), HasSubstr("require pattern"));
  EXPECT_THAT(refusal("'abc"), HasSubstr("not closed"));
  EXPECT_THAT(refusal("a b"), HasSubstr("--help"));
  EXPECT_THAT(refusal("--nonsense 1"), HasSubstr("--nonsense"));
  EXPECT_THAT(refusal("--min-size lots"), HasSubstr("lots"));
  EXPECT_THAT(refusal("--min-size 2k --max-size 1k"), HasSubstr("above the largest"));
  // History has none of these.
  EXPECT_THAT(refusal("--min-lifetime 1s"), HasSubstr("--min-lifetime"));
  for (const char* line : {"(", "'abc", "a b", "--heap x"}) {
    EXPECT_EQ(refusal(line).find('\n'), std::string::npos) << line;
  }
}

std::string typed(LineEdit edit, std::initializer_list<int> keys) {
  for (const int key : keys) edit.press(key);
  return edit.text();
}

TEST(LineEdit, EditsCodePoints) {
  EXPECT_EQ(typed(LineEdit("ac"), {kKeyLeft, 'b'}), "abc");
  EXPECT_EQ(typed(LineEdit("aé"), {kKeyBackspace}), "a");
  EXPECT_EQ(typed(LineEdit("é€😀"), {kKeyHome, kKeyRight, kKeyDelete}), "é😀");
  EXPECT_EQ(typed(LineEdit(), {0xE9, 0x20AC, 0x1F600}), "é€😀");
  EXPECT_EQ(LineEdit("é€").cursor(), 2u);
}

TEST(LineEdit, StaysWithinTheText) {
  EXPECT_EQ(typed(LineEdit("a"), {kKeyLeft, kKeyLeft, kKeyBackspace, 'b'}), "ba");
  EXPECT_EQ(typed(LineEdit("a"), {kKeyRight, kKeyDelete, 'b', kKeyUp, kKeyNone, 7}), "ab");
  EXPECT_EQ(typed(LineEdit(), {kKeyBackspace, kKeyDelete, kKeyEnd, kKeyHome}), "");
}

TEST(LineEdit, ErasesWordsAndAll) {
  constexpr int kControlU = 21, kControlW = 23;
  EXPECT_EQ(typed(LineEdit("ab cd  "), {kControlW}), "ab ");
  EXPECT_EQ(typed(LineEdit("ab cd"), {kControlW, kControlW, kControlW}), "");
  EXPECT_EQ(typed(LineEdit("ab cd"), {kKeyLeft, kControlU}), "d");
  EXPECT_EQ(typed(LineEdit("   "), {kControlW}), "");
  EXPECT_EQ(typed(LineEdit(""), {kControlW, kControlU}), "");
}

TEST(LineEdit, TextFromElsewhereIsMadePrintable) {
  EXPECT_EQ(LineEdit("a\x1b\x80").text(), "a?\uFFFD");
}

}  // namespace
}  // namespace memprofd::ctl
