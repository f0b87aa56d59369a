// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/recursion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>

namespace memprofd {
namespace {

// Function of each location. A lower-case letter is a function and its location; the upper-case
// letter is another line of the same function.
std::vector<std::uint32_t> functions() {
  std::vector<std::uint32_t> out(128);
  std::iota(out.begin(), out.end(), 0u);
  for (char c = 'A'; c <= 'Z'; ++c)
    out[static_cast<std::size_t>(c)] = static_cast<std::uint32_t>(c - 'A' + 'a');
  return out;
}

std::vector<FoldedFrame> fold(const std::string& stack) {
  const std::vector<std::uint32_t> locations(stack.begin(), stack.end());
  return fold_recursion(locations, functions());
}

// "mf3g" of main, f three times, g.
std::string folded(const std::string& stack) {
  std::string out;
  for (const FoldedFrame& frame : fold(stack)) {
    out += static_cast<char>(frame.location);
    if (frame.frames > 1) out += std::to_string(frame.frames);
  }
  return out;
}

TEST(RecursionTest, FramesThatDoNotRepeatStay) {
  EXPECT_EQ("", folded(""));
  EXPECT_EQ("m", folded("m"));
  EXPECT_EQ("mfgh", folded("mfgh"));
  EXPECT_EQ("mfgfk", folded("mfgfk"))
      << "f is called again, by another function for another reason";
  EXPECT_EQ("mfghfgk", folded("mfghfgk"));
}

TEST(RecursionTest, Direct) {
  EXPECT_EQ("mf3g", folded("mfffg"));
  EXPECT_EQ("f4", folded("ffff"));
  EXPECT_EQ("mf2g2h2", folded("mffgghh"));
  EXPECT_EQ("mf312g", folded("m" + std::string(312, 'f') + "g"));
}

TEST(RecursionTest, Mutual) {
  EXPECT_EQ("mf2g2h", folded("mfgfgh"));
  EXPECT_EQ("mf3g3", folded("mfgfgfg"));
  EXPECT_EQ("mf3g2h", folded("mffgfgh"));
  EXPECT_EQ("mf2g2f", folded("mfgfgf")) << "the call that has not come round";
  EXPECT_EQ("ma3b3c3k", folded("mabcabcabck"));
  EXPECT_EQ("ma6b3k", folded("maabaabaabk")) << "a recursion in a cycle";
}

TEST(RecursionTest, TheLineIsThatOfTheInnermostRepeat) {
  EXPECT_EQ("mF3g", folded("mffFg"));
  EXPECT_EQ("mf3g", folded("mFFfg"));
  EXPECT_EQ("mf2G2h", folded("mFgfGh"));
}

TEST(RecursionTest, AsLongACycleAsTheLimit) {
  std::string cycle;
  for (std::size_t i = 0; i < kLongestCycle; ++i) cycle += static_cast<char>(i + 1);
  EXPECT_EQ(kLongestCycle, fold(cycle + cycle + cycle).size());
  cycle += static_cast<char>(kLongestCycle + 1);
  EXPECT_EQ(2 * cycle.size(), fold(cycle + cycle).size()) << "a longer one stays";
}

TEST(RecursionTest, EveryFrameIsCountedAndNothingRepeatsAfterwards) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string stack;
    for (std::size_t length = random() % 60; stack.size() < length;) {
      stack += static_cast<char>('a' + random() % (1 + random() % 4));
    }
    const std::vector<FoldedFrame> frames = fold(stack);
    std::size_t sum = 0;
    for (const FoldedFrame& frame : frames) sum += frame.frames;
    EXPECT_EQ(stack.size(), sum) << stack;
    for (std::size_t n = 1; 2 * n <= std::min(frames.size(), 2 * kLongestCycle); ++n) {
      for (std::size_t at = 0; at + 2 * n <= frames.size(); ++at) {
        bool repeats = true;
        for (std::size_t i = at; i < at + n; ++i)
          repeats = repeats && frames[i].location == frames[i + n].location;
        EXPECT_FALSE(repeats) << stack << " at " << at;
      }
    }
    if (!stack.empty()) {
      EXPECT_EQ(static_cast<std::uint32_t>(stack.back()), frames.back().location);
    }
  }
}

TEST(RecursionTest, UnchangedCallstacks) {
  const std::vector<std::uint32_t> locations{7, 7, 8};
  EXPECT_THAT(unfolded(locations),
              testing::ElementsAre(FoldedFrame{7, 1}, FoldedFrame{7, 1}, FoldedFrame{8, 1}));
}

}  // namespace
}  // namespace memprofd
