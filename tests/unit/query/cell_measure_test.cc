// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/cell_measure.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

// 100 allocated; 12 died young, 3 old, 2 forgotten, 5 never followed.
class CellMeasureTest : public ::testing::Test {
 protected:
  const WindowCell cell_{.alloc_class = ClassId(1),
                         .allocated = 100,
                         .promoted = 11,
                         .never_followed = 5,
                         .forgotten = 2,
                         .died = {12, 3}};
};

TEST_F(CellMeasureTest, SamplesOfEachKindOfBlocks) {
  EXPECT_EQ(cell_samples(cell_, Blocks::kAllocated), 100);
  EXPECT_EQ(cell_samples(cell_, Blocks::kPromoted), 11);
  EXPECT_EQ(cell_samples(cell_, Blocks::kDiedYoung), 12);
  EXPECT_EQ(cell_samples(cell_, Blocks::kDiedOld), 3);
  EXPECT_EQ(cell_samples(cell_, Blocks::kDied), 12 + 3);
  EXPECT_EQ(cell_samples(cell_, Blocks::kLive), 100 - 12 - 3 - 2 - 5);
}

TEST_F(CellMeasureTest, LevelsFallWhenMoreDiesThanIsBorn) {
  WindowCell cell = cell_;
  cell.allocated = 0;
  EXPECT_EQ(cell_samples(cell, Blocks::kLive), -22);
  EXPECT_EQ(cell_samples({}, Blocks::kLive), 0);
}

TEST_F(CellMeasureTest, ASampleCountsBytesBlocksOrItself) {
  AllocClass two_words;
  two_words.size = SizeBucket::of(2);
  const auto of = [&](Unit unit) { return sample_value(two_words, weight_of_word(1e-3), unit); };
  EXPECT_EQ(of(Unit::kSamples).value, 1);
  EXPECT_DOUBLE_EQ(of(Unit::kBytes).value, 8000);
  EXPECT_DOUBLE_EQ(of(Unit::kBytes).variance, 8000 * 8000 * 0.999);
  EXPECT_DOUBLE_EQ(of(Unit::kBlocks).value, 1000 / 3.0) << "three words with the header";
}

TEST_F(CellMeasureTest, OnlyLifetimesAreNoSum) {
  for (const MeasureRow& row : measures()) {
    EXPECT_EQ(check_summable(row.measure).ok(), row.measure != Measure::kLifetime) << row.word;
  }
  EXPECT_EQ(check_summable(Measure::kLifetime).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace memprofd
