// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/catch_up_pace.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

using std::chrono::milliseconds;

constexpr CatchUpPace::TimePoint at(int ms) {
  return CatchUpPace::TimePoint() + std::chrono::hours(1) + milliseconds(ms);
}

TEST(CatchUpPaceTest, AQuietTargetIsPolledSoon) {
  CatchUpPace pace;
  EXPECT_TRUE(pace.due(at(0), false)) << "never asked";
  pace.note_data(at(0));
  EXPECT_FALSE(pace.due(at(249), false));
  EXPECT_TRUE(pace.due(at(250), false));
  pace.fetched(at(250), true);
  EXPECT_FALSE(pace.due(at(499), false));
  EXPECT_TRUE(pace.due(at(500), false));
}

TEST(CatchUpPaceTest, ATargetWithoutEventsIsPolledRarely) {
  CatchUpPace pace;
  pace.fetched(at(0), false);
  EXPECT_FALSE(pace.due(at(999), false));
  EXPECT_TRUE(pace.due(at(1000), false));
  EXPECT_TRUE(pace.due(at(250), true)) << "somebody waits";
  pace.fetched(at(1000), true);
  EXPECT_TRUE(pace.due(at(1250), false));
}

TEST(CatchUpPaceTest, ATargetThatReportedByItselfIsPolledSoonAgain) {
  CatchUpPace pace;
  pace.fetched(at(0), false);
  pace.note_data(at(100));
  EXPECT_FALSE(pace.due(at(349), false));
  EXPECT_TRUE(pace.due(at(350), false));
}

TEST(CatchUpPaceTest, WhatStandsStillForLongIsAtRestUntilSomethingComes) {
  CatchUpPace pace;
  pace.note_data(at(0));
  pace.note_idle(at(250));
  EXPECT_FALSE(pace.at_rest(at(999)));
  EXPECT_TRUE(pace.at_rest(at(1000)));
  EXPECT_TRUE(pace.due(at(500), false)) << "whether it has run is asked as often as before";
  pace.fetched(at(1000), true);
  EXPECT_FALSE(pace.at_rest(at(2000))) << "it runs";
  pace.note_idle(at(2000));
  EXPECT_TRUE(pace.at_rest(at(2000)));
  pace.note_data(at(2001));
  EXPECT_FALSE(pace.at_rest(at(5000))) << "it has told something, and nobody has looked since";
}

}  // namespace
}  // namespace memprofd
