// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/visible_frames.h"

#include <gtest/gtest.h>

#include "tests/kit/profile_model.h"

namespace memprofd {
namespace {

using testing::ProfileModel;
using testing::run;
using Names = std::vector<std::string>;

Names names(const ProfileModel& model, const ProfileRow& row) {
  VisibleFrames frames(model.profile);
  Names result;
  for (const Location& l : frames.locations(*row.callstack)) result.push_back(l.function);
  return result;
}
std::string site(const ProfileModel& model, const ProfileRow& row) {
  VisibleFrames frames(model.profile);
  return frames.location(frames.site(*row.callstack)).function;
}

TEST(VisibleFramesTest, AllLocationsInnermostFirst) {
  ProfileModel model;
  model.name(2, {{.function = "inlined"}, {.function = "outer"}});
  const ProfileRow row = model.add({1, 2, 3}, 1);
  EXPECT_EQ(names(model, row), (Names{"f1", "inlined", "outer", "f3"}));
  EXPECT_EQ(site(model, row), "f1");
}

TEST(VisibleFramesTest, HiddenLocationsAreLeftOutInlinedOnesToo) {
  ProfileModel model;
  model.name(2, {{.function = "inlined"}, {.function = "outer"}});
  const ProfileRow row = model.add({1, 2, 3}, 1);
  model.hide({"f1", "inlined"});
  EXPECT_EQ(names(model, row), (Names{"outer", "f3"}));
  EXPECT_EQ(site(model, row), "outer");
}

TEST(VisibleFramesTest, TheSiteOfABigarrayIsWhoMadeIt) {
  ProfileModel model;
  model.name(1, {{.function = "Stdlib.Bigarray.Array1.create"}});
  model.name(2, {{.function = "Stdlib__Bigarray.Array1.init"}, {.function = "Pixels.load"}});
  const ProfileRow row = model.add({1, run(2), 2, 3}, 1), alone = model.add({1}, 1);
  EXPECT_EQ(site(model, row), "Pixels.load");
  EXPECT_EQ(site(model, alone), "Stdlib.Bigarray.Array1.create");
  EXPECT_EQ(names(model, row)[0], "Stdlib.Bigarray.Array1.create") << "the callstack has it all";
}

TEST(VisibleFramesTest, TheSiteOfTheApplicationIsOutsideOfLibraries) {
  ProfileModel model;
  model.name(1, {{.function = "Stdlib__Bytes.sub"}});
  model.name(2, {{.function = "Stdlib.(^)"}, {.function = "CamlinternalFormat.make_printf"}});
  model.name(3, {{.function = "Audit.log"}, {.function = "Audit.request"}});
  model.name(4, {{.function = "caml_main"}});
  const ProfileRow row = model.add({1, 2, 3, 4}, 1), alone = model.add({1, 2, 4}, 1);
  EXPECT_EQ(site(model, row), "Stdlib__Bytes.sub");
  model.profile.site_frame = SiteFrame::kApplication;
  EXPECT_EQ(site(model, row), "Audit.log");
  EXPECT_EQ(site(model, alone), "Stdlib__Bytes.sub") << "nothing of it is the application's";
  EXPECT_EQ(names(model, row)[0], "Stdlib__Bytes.sub") << "the callstack has it all";
}

TEST(VisibleFramesTest, WhatIsHiddenNamesNoSiteOfTheApplication) {
  ProfileModel model;
  model.name(1, {{.function = "Stdlib.List.map"}});
  const ProfileRow row = model.add({1, 2, 3}, 1), library_alone = model.add({2, 1}, 1);
  model.hide({"f2"});
  model.profile.site_frame = SiteFrame::kApplication;
  EXPECT_EQ(site(model, row), "f3");
  EXPECT_EQ(site(model, library_alone), "Stdlib.List.map");
}

TEST(VisibleFramesTest, HiddenLocationsDoNotCountToTheMaximum) {
  ProfileModel model;
  const ProfileRow row = model.add({1, run(1'000'000), 2, 3}, 1);
  model.hide({"f1"});
  EXPECT_EQ(names(model, row), (Names{"f2", "f3"}));
}

TEST(VisibleFramesTest, NothingKnownAndAllHidden) {
  ProfileModel model;
  const ProfileRow unknown = model.add({}, 1);
  const ProfileRow garbage = model.add({run(3)}, 1);
  const ProfileRow known = model.add({1}, 1);
  EXPECT_EQ(names(model, unknown), (Names{"(unknown)"}));
  EXPECT_EQ(site(model, unknown), "(unknown)");
  EXPECT_EQ(names(model, garbage), (Names{"(unknown)"}));
  model.hide({"f1"});
  EXPECT_EQ(names(model, known), (Names{"(hidden)"}));
  EXPECT_EQ(site(model, known), "(hidden)");
  EXPECT_EQ(names(model, unknown), (Names{"(unknown)"}));
  EXPECT_EQ(site(model, unknown), "(unknown)");
}

TEST(VisibleFramesTest, RunsAreExpandedUpToTheMaximum) {
  ProfileModel model;
  EXPECT_EQ(names(model, model.add({1, run(2), 2}, 1)), (Names{"f1", "f1", "f1", "f2"}));
  const ProfileRow deep = model.add({1, run(0xffffffff), 2}, 1);
  EXPECT_EQ(names(model, deep).size(), VisibleFrames::kMaxLocations);
}

TEST(VisibleFramesTest, AllocIdxBelongsToTheInnermostFrameOnly) {
  ProfileModel model;
  model.name(1, {{.function = "second allocation"}}, 1);
  const ProfileRow row = model.add({1, run(1), 2}, 1, 0, 1);
  EXPECT_EQ(names(model, row), (Names{"second allocation", "f1", "f2"}));
}

}  // namespace
}  // namespace memprofd
