// SPDX-License-Identifier: Apache-2.0
// The tables of measures and group keys: detects missing and wrong rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "daemon/model/group_key.h"
#include "daemon/model/location.h"
#include "daemon/model/measure.h"
#include "memprof/v1/profiler.pb.h"
#include "re2/re2.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;
using ::testing::ElementsAre;

// "DIED_YOUNG" of MEASURE_DIED_YOUNG.
std::string value_name(const google::protobuf::EnumDescriptor& type, int value,
                       const std::string& prefix) {
  return type.FindValueByNumber(value)->name().substr(prefix.size());
}

TEST(MeasureTable, TheWordsAreThoseOfTheMessage) {
  std::set<char> keys;
  for (const MeasureRow& row : measures()) {
    EXPECT_EQ(absl::AsciiStrToUpper(row.api_word()),
              value_name(*pb::Measure_descriptor(), row.proto, "MEASURE_"));
    EXPECT_TRUE(keys.insert(row.key).second) << row.key << " sorts by two measures";
    EXPECT_EQ(&measure_row(row.measure), &row);
    EXPECT_EQ(find_measure(row.proto), &row);
  }
}

TEST(MeasureTable, DistinguishesUnknownValues) {
  EXPECT_EQ(find_measure(pb::MEASURE_UNSPECIFIED)->measure, Measure::kLive);
  EXPECT_EQ(find_measure(static_cast<pb::Measure>(99)), nullptr);
  EXPECT_EQ(measure_row(static_cast<pb::Measure>(99)).measure, Measure::kLive);
}

TEST(MeasureTable, KnowsWhichMeasuresAreFlows) {
  std::vector<std::string> flows, followed;
  for (const MeasureRow& row : measures()) {
    if (row.is_flow()) flows.emplace_back(row.word);
    if (!row.needs_followed_blocks()) followed.emplace_back(row.word);
    EXPECT_EQ(row.is_sum(), row.measure != Measure::kLifetime);
  }
  EXPECT_THAT(flows, ElementsAre("allocated", "promoted", "died-young", "died-old", "samples",
                                 "allocated-objects"));
  EXPECT_THAT(followed, ElementsAre("allocated", "samples", "allocated-objects"));
}

TEST(MeasureTable, Labels) {
  EXPECT_EQ(measure_row(Measure::kDiedYoung).label(), "Died young");
  EXPECT_EQ(measure_row(Measure::kDiedYoung).api_word(), "died_young");
}

TEST(GroupTable, TheWordsAreThoseOfTheMessage) {
  for (const GroupRow& row : group_keys()) {
    EXPECT_EQ(absl::AsciiStrToUpper(absl::string_view(row.word.data(), row.word.size())),
              value_name(*pb::GroupBy_descriptor(), row.proto, "GROUP_BY_"));
    EXPECT_EQ(&group_row(row.group_by), &row);
    EXPECT_EQ(find_group_key(row.proto), &row);
  }
  EXPECT_EQ(find_group_key(pb::GROUP_BY_UNSPECIFIED)->group_by, GroupBy::kSite);
  EXPECT_EQ(find_group_key(static_cast<pb::GroupBy>(99)), nullptr);
  EXPECT_EQ(group_row(static_cast<pb::GroupBy>(99)).group_by, GroupBy::kSite);
}

// The code looks these fields up by name.
TEST(GroupTable, FieldsOfNumbersAreThereAndHoldThem) {
  for (const GroupRow& row : group_keys()) {
    if (!row.is_number()) {
      EXPECT_FALSE(row.nothing.empty()) << row.word;
      continue;
    }
    pb::Site group;
    ASSERT_NE(group.GetDescriptor()->FindFieldByName(row.number.site_field), nullptr) << row.word;
    set_number(7, row, group);
    EXPECT_EQ(number_of(group, row), 7u);
    pb::Filter filter;
    narrow_to_number(6, row, filter);
    narrow_to_number(7, row, filter);
    pb::Filter once;
    narrow_to_number(7, row, once);
    EXPECT_EQ(filter.SerializeAsString(), once.SerializeAsString());
    EXPECT_GT(once.ByteSizeLong(), 0u) << row.word;
  }
}

TEST(GroupTable, UnitNamesAreTheSameForBothWhoAsk) {
  for (const char* name : {"Shop", "Dune__exe__Main", "Foo'", "A", "", "shop", "Shop.f", "Ns::f",
                           "server.exe", "(no module)", "_A", "Caf\xC3\xA9"}) {
    EXPECT_EQ(is_unit_name(name), RE2::FullMatch(name, kUnitNamePattern)) << name;
  }
}

}  // namespace
}  // namespace memprofd
