#include "daemon/store/cell_measure.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

// 100 allocated; 12 died young, 3 old, 2 forgotten.
class CellMeasureTest : public ::testing::Test {
 protected:
  const WindowCell cell_{
      .alloc_class = ClassId(1), .allocated = 100, .promoted = 11, .forgotten = 2, .died = {12, 3}};
};

TEST_F(CellMeasureTest, SamplesOfEachMeasure) {
  EXPECT_EQ(cell_samples(cell_, Measure::kAllocated), 100);
  EXPECT_EQ(cell_samples(cell_, Measure::kAllocatedObjects), 100);
  EXPECT_EQ(cell_samples(cell_, Measure::kSamples), 100);
  EXPECT_EQ(cell_samples(cell_, Measure::kPromoted), 11);
  EXPECT_EQ(cell_samples(cell_, Measure::kDiedYoung), 12);
  EXPECT_EQ(cell_samples(cell_, Measure::kDiedOld), 3);
  EXPECT_EQ(cell_samples(cell_, Measure::kLive), 100 - 12 - 3 - 2);
  EXPECT_EQ(cell_samples(cell_, Measure::kLiveObjects), 100 - 12 - 3 - 2);
}

TEST_F(CellMeasureTest, LevelsFallWhenMoreDiesThanIsBorn) {
  WindowCell cell = cell_;
  cell.allocated = 0;
  EXPECT_EQ(cell_samples(cell, Measure::kLive), -17);
  EXPECT_EQ(cell_samples({}, Measure::kLive), 0);
}

TEST_F(CellMeasureTest, ASampleCountsBytesBlocksOrItself) {
  AllocClass two_words;
  two_words.size = SizeBucket::of(2);
  EXPECT_EQ(sample_weight(two_words, 1e-3, Measure::kSamples), 1);
  EXPECT_DOUBLE_EQ(sample_weight(two_words, 1e-3, Measure::kAllocated), 8000);
  EXPECT_DOUBLE_EQ(sample_weight(two_words, 1e-3, Measure::kLive), 8000);
  EXPECT_DOUBLE_EQ(sample_weight(two_words, 1e-3, Measure::kAllocatedObjects), 1000 / 3.0)
      << "three words with the header";
}

TEST_F(CellMeasureTest, OnlyLifetimesAreNoSum) {
  for (int i = 0; i <= static_cast<int>(Measure::kLiveObjects); ++i) {
    const auto measure = static_cast<Measure>(i);
    EXPECT_EQ(check_summable(measure).ok(), measure != Measure::kLifetime) << i;
    EXPECT_EQ(is_level(measure), measure == Measure::kLive || measure == Measure::kLiveObjects);
  }
  EXPECT_EQ(check_summable(Measure::kLifetime).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace memprofd
