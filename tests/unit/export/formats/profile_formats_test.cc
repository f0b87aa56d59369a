// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/profile_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/ascii.h"
#include "daemon/ctl/report_format.h"
#include "daemon/export/api/vocabulary.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;
using ::testing::ElementsAre;

TEST(ProfileFormats, TheWordsAreThoseOfTheMessage) {
  for (const ProfileFormatRow& row : profile_formats()) {
    EXPECT_EQ("PROFILE_FORMAT_" + absl::AsciiStrToUpper(row.word),
              pb::ProfileFormat_Name(row.proto));
    EXPECT_EQ(find_profile_format(row.proto), &row);
    EXPECT_EQ(find_profile_format(row.word), *row.label == '\0' ? nullptr : &row);
  }
  EXPECT_EQ(find_profile_format(pb::PROFILE_FORMAT_UNSPECIFIED)->proto, pb::PROFILE_FORMAT_PPROF);
  EXPECT_EQ(find_profile_format(static_cast<pb::ProfileFormat>(99)), nullptr);
}

TEST(ProfileFormats, ReportsListThoseForPeople) {
  EXPECT_THAT(ctl::report_formats(),
              ElementsAre("table", "json", "pprof", "collapsed", "speedscope", "html"));
}

// Such a report was once a table, without a warning.
TEST(ProfileFormats, AReportInNoFormatIsRefused) {
  const absl::Status status = ctl::report_format("svg").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "unknown format svg: use table, json, pprof, collapsed, speedscope, html");
  EXPECT_FALSE(ctl::report_format("flame_json").ok()) << "of the page only";
}

TEST(ProfileFormats, TablesAndJsonAreNotProfiles) {
  EXPECT_EQ(ctl::report_format(ctl::kTable).value(), nullptr);
  EXPECT_EQ(ctl::report_format(ctl::kJson).value(), nullptr);
  EXPECT_EQ(ctl::report_format("html").value()->proto, pb::PROFILE_FORMAT_HTML);
}

TEST(Vocabulary, SaysWhatTheTablesSay) {
  const pb::Vocabulary all = vocabulary();
  EXPECT_EQ(all.measures_size(), pb::Measure_MAX);
  EXPECT_EQ(all.group_keys_size(), pb::GroupBy_MAX);
  EXPECT_EQ(all.formats_size(), 4);
  for (const pb::MeasureInfo& measure : all.measures()) {
    EXPECT_EQ(measure.estimates().empty(), measure.unit() != "bytes") << measure.name();
    for (const std::string& field : measure.estimates()) {
      EXPECT_NE(pb::Site::descriptor()->FindFieldByName(field), nullptr) << field;
      EXPECT_NE(pb::Target::descriptor()->FindFieldByName(field), nullptr) << field;
    }
  }
  for (const pb::GroupKeyInfo& key : all.group_keys()) {
    for (const std::string& field : key.parts()) {
      EXPECT_NE(pb::Site::descriptor()->FindFieldByName(field), nullptr) << field;
    }
    EXPECT_EQ(key.parts().empty(), !key.number_field().empty()) << key.name();
  }
}

}  // namespace
}  // namespace memprofd
