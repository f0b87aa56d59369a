// SPDX-License-Identifier: Apache-2.0
// Answers from a heap snapshot as text, whole ones in tests/golden, and as JSON.
#include "daemon/ctl/snapshot/snapshot_text.h"
#include "daemon/ctl/render/render_json.h"
#include "daemon/export/heaps/heap_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/kit/golden.h"
#include "tests/kit/image_builder.h"

namespace memprofd::ctl {
namespace {

using memprofd::testing::expect_golden;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// A shop: a cache that is a hash table of chained orders, sessions as a list on a thread's stack,
// settings that both a module and a stack hold, and what nobody holds any more.
class Shop {
 public:
  explicit Shop(std::uint32_t orders, std::uint64_t first_id = 1) : id_(first_id) {
    builder_.image().info.sampling_rate = 0.2;
    add_order_ = builder_.site({{.function = "Order.parse", .file = "order.ml", .line = 17},
                                {.function = "Server.handle", .file = "server.ml", .line = 42}});
    login_ = builder_.site({{.function = "Session.login", .file = "session.ml", .line = 8}});
    add_cache(orders);
    add_sessions();
    const std::uint32_t settings = builder_.block(12);
    builder_.global("Config", 0, settings);
    builder_.root(frame(), settings);
    builder_.global("Config", 1, builder_.block(3, 247, "Config.reload"));
    add_garbage();
  }
  HeapImage image() { return builder_.build(); }

 private:
  static RootName frame() {
    return {.kind = RootKind::kStack,
            .owner = "thread 4243",
            .place = {.function = "Server.loop", .file = "server.ml", .line = 88}};
  }
  std::uint32_t order() {
    const std::uint32_t order = builder_.block(5);
    builder_.point(order, 1, builder_.string(6));
    builder_.point(order, 2, builder_.boxed_float());
    builder_.sample(order, 1, add_order_, id_++);
    return order;
  }
  void add_cache(std::uint32_t orders) {
    constexpr std::uint32_t kBuckets = 1024;
    const std::uint32_t table = builder_.block(4), data = builder_.block(kBuckets);
    builder_.global("Cache", 2, table);
    builder_.point(table, 1, data);
    std::vector<std::uint32_t> chains(kBuckets, HeapImage::kNoBlock);
    for (std::uint32_t i = 0; i < orders; ++i) {
      const std::uint32_t entry = builder_.block(3);
      builder_.point(entry, 1, order());
      std::uint32_t& chain = chains[i % (kBuckets / 8)];
      if (chain != HeapImage::kNoBlock) builder_.point(entry, 2, chain);
      chain = entry;
    }
    for (std::uint32_t i = 0; i < kBuckets; ++i) {
      if (chains[i] != HeapImage::kNoBlock) builder_.point(data, i, chains[i]);
    }
  }
  void add_sessions() {
    std::uint32_t list = HeapImage::kNoBlock;
    for (int i = 0; i < 40; ++i) {
      const std::uint32_t session = builder_.block(7, 1);
      builder_.point(session, 0, builder_.block(2, 255, "_j"));
      if (i % 4 == 0) builder_.point(session, 3, order());
      builder_.sample(session, 1, login_, id_++);
      list = builder_.cell(session, list);
    }
    builder_.root(frame(), list);
  }
  void add_garbage() {
    for (int i = 0; i < 25; ++i) order();
    builder_.sample(HeapImage::kNoBlock, 2, login_, id_++);
    HeapImage& image = builder_.image();
    image.dead.add(252, 9, 30);
    image.free.add(0, 4, 20);
    image.free.add(0, 300);
    image.young = {{0, 10}};
  }

  ImageBuilder builder_;
  std::uint64_t id_;
  std::uint32_t add_order_ = 0;
  std::uint32_t login_ = 0;
};

std::vector<bool> all_sites(const HeapImage& image) {
  return std::vector<bool>(image.sites.size(), true);
}

pb::HeapCensus census_of(const HeapImage& image) {
  return census_answer(image, ShortestPaths(image));
}
pb::HeapGarbage garbage_of(const HeapImage& image) {
  return garbage_answer(image, ShortestPaths(image));
}
pb::HeapRetained retained_of(const HeapImage& image, const RetainedTable& table,
                             const HeapDumpView& view = {}) {
  return retained_answer(image.info, table, table.children()[0], view.tree());
}
Json json_of(const google::protobuf::Message& answer) { return Json::parse(numeric_json(answer)); }

TEST(GoldenSnapshot, Show) {
  const HeapImage image = Shop(200).image();
  expect_golden("heap_show.txt", census_text(census_of(image), {.limit = 6}));
}

TEST(SnapshotText, SaysHowMuchHasATypeAndWhatSpeaksAgainstIt) {
  ImageBuilder builder;
  builder.global("Shop", 0, builder.block(2));
  builder.global("Shop", 1, builder.block(5));
  HeapImage image = builder.build();
  image.types = {{}, {.name = "Shop.order", .fields = 2}};
  set_types(image, {1, 0});
  image.types_found = {.disagreed = 3, .modules = 1, .modules_without_files = 2};
  const pb::HeapCensus census = census_of(image);
  const std::string text = census_text(census, {});
  EXPECT_THAT(text, HasSubstr("Types, and shapes of the rest: block(fields, tag)\n"));
  EXPECT_THAT(text, HasSubstr("Source types: 33 % of the reachable memory, from files of 1 module; "
                              "2 have none.\n  3 blocks did not match their type"));
  const Json json = json_of(census);
  EXPECT_EQ(24, json["types"]["typed"]["bytes"]);
  EXPECT_EQ(3, json["types"]["disagreed"]);
}

TEST(SnapshotText, NamesModulesWhoseFilesAreOfAnotherBuild) {
  ImageBuilder builder;
  builder.global("Path", 0, builder.block(2));
  HeapImage image = builder.build();
  image.types_found = {.other_builds = {"Parser", "Path"}, .unverified = true};
  const pb::HeapCensus census = census_of(image);
  EXPECT_THAT(census_text(census, {}),
              HasSubstr("  Ignored, files of another build: Parser, Path.\n"
                        "  It is unknown whether the files are of the program's build.\n"));
  const Json json = json_of(census);
  EXPECT_EQ((Json{"Parser", "Path"}), json["types"]["other_builds"]);
  EXPECT_TRUE(json["types"]["unverified"].get<bool>());
}

TEST(SnapshotText, SaysWhichTypesAreOfTheSitesOfSampledBlocks) {
  ImageBuilder builder;
  builder.root({.kind = RootKind::kStack}, builder.block(2));
  HeapImage image = builder.build();
  image.types = {{}, {.name = "Shop.order", .fields = 2}};
  set_types(image, {1});
  image.types_found = {.by_site = 1, .sites_unfit = 4, .sites_disagreed = 5};
  const pb::HeapCensus census = census_of(image);
  EXPECT_THAT(
      census_text(census, {}),
      HasSubstr("Source types: 100 % of the reachable memory, from files of 0 modules.\n  1 "
                "sampled block that no module reaches: the type is that of the allocating "
                "expression.\n  4 do not fit the expression there or fit several, 5 have "
                "another type through a module.\n"));
  const Json json = json_of(census);
  EXPECT_EQ(1, json["types"]["by_site"]);
  EXPECT_EQ(4, json["types"]["sites_unfit"]);
  EXPECT_EQ(5, json["types"]["sites_disagreed"]);
}

TEST(GoldenSnapshot, Retained) {
  HeapImage image = Shop(200).image();
  const RetainedTable table = find_retained(image, {});
  expect_golden("heap_retained.txt",
                retained_text(retained_of(image, table, {.limit = 3}), {.limit = 3}));
}

TEST(GoldenSnapshot, Why) {
  const HeapImage image = Shop(200).image();
  expect_golden("heap_why.txt", why_text(why_answer(image.info, Why(image, {true, false})), {}));
}

TEST(GoldenSnapshot, Diff) {
  HeapImage before = Shop(200).image(), after = Shop(500, 31).image();
  after.info.unix_ns += 600'000'000'000;
  const ImageSummary base = summarize(before), other = summarize(after);
  expect_golden("heap_diff.txt", diff_text(diff_answer(base, other), {.limit = 5}));
}

TEST(GoldenSnapshot, Garbage) {
  HeapImage image = Shop(200).image();
  image.info.longest_wait_ns = 100'000'000'000;
  for (std::size_t i = 0; i < image.sampled.size(); ++i) {
    image.sampled[i].age_ns = (image.sampled.size() - i) * 5'000'000'000;
  }
  expect_golden("heap_garbage.txt", garbage_text(garbage_of(image), {}));
}

TEST(SnapshotText, GarbageOfWhichNothingIsKnown) {
  ImageBuilder builder;
  const std::uint32_t site = builder.site({{.function = "Order.parse"}});
  builder.sample(builder.string(20), 1, site);
  HeapImage image = builder.build();
  const pb::HeapGarbage garbage = garbage_of(image);
  const std::string text = garbage_text(garbage, {});
  EXPECT_THAT(text, HasSubstr("the time is known after two have ended since the attach"));
  EXPECT_THAT(text, ::testing::ContainsRegex(" 1 +- +- +-  Order.parse"));
  const Json json = json_of(garbage);
  EXPECT_TRUE(json["longest_wait_seconds"].is_null());
  EXPECT_TRUE(json["sites"][0]["ages"]["p50_seconds"].is_null());
  EXPECT_TRUE(json["sites"][0]["longest_wait_seconds"].is_null());
  EXPECT_EQ(21 * 8, json["garbage"]["bytes"]);
  image.sampled.clear();
  EXPECT_THAT(garbage_text(garbage_of(image), {}), HasSubstr("No sampled block is garbage."));
}

TEST(GoldenSnapshot, Waste) {
  const HeapImage image = Shop(200).image();
  expect_golden("heap_waste.txt", waste_text(waste_answer(image, ShortestPaths(image)), {}));
}

TEST(SnapshotText, AFileThatIsCutOffSaysSo) {
  ImageInfo info = Shop(1).image().info;
  info.complete = false;
  EXPECT_THAT(snapshot_head_text(to_proto(info)), HasSubstr("truncated"));
}

TEST(SnapshotText, WhatLiesOutsideIsToldApart) {
  ImageBuilder builder;
  builder.global("Matrix", 0, builder.block(5, 255, "_bigarr02"));
  builder.block(6, 255, "_bigarr02");
  builder.block(3, 255, "_j");
  HeapImage image = builder.build();
  image.shapes[0].outside_bytes = 2048;
  image.shapes[1].outside_bytes = 512;
  EXPECT_THAT(
      census_text(census_of(image), {}),
      HasSubstr("Outside of the heap, in no number above: 2.00 KiB of reachable blocks, 512 B "
                "of garbage.\n  custom _bigarr02: 2.00 KiB and 512 B\n"));
  const HeapImage other = Shop(1).image();
  EXPECT_THAT(census_text(census_of(other), {}), Not(HasSubstr("Outside of the heap")));
}

TEST(SnapshotText, WhoRetainsWhatLiesOutside) {
  ImageBuilder builder;
  builder.global("Text", 0, builder.string(99));
  const std::uint32_t stream = builder.block(1, 255, "zip");
  builder.global("Zip", 1, stream);
  builder.image().chunk_bytes[stream] = {7216, 4096};
  HeapImage image = builder.build();
  const RetainedTable table = find_retained(image, {});
  const std::string text = retained_text(retained_of(image, table), {});
  EXPECT_THAT(text, HasSubstr("of 816 B that is reachable, and 7.05 KiB outside of the heap"));
  EXPECT_THAT(text, HasSubstr("RETAINED   OUTSIDE  SHARE"));
  EXPECT_LT(text.find("Zip"), text.find("Text")) << "who has most in all comes first";
  const Json json = json_of(retained_of(image, table));
  EXPECT_EQ(json["roots"][0]["children"][0]["outside_bytes"], 7216);
  const WhyOutside why(image, [](const std::string&) { return true; });
  const pb::HeapOutside outside = outside_answer(image.info, why);
  EXPECT_THAT(outside_text(outside, {}),
              AllOf(HasSubstr("custom zip"), HasSubstr("global Zip, field 1")));
  const Json told = json_of(outside);
  EXPECT_EQ(told["classes"][0]["reachable"]["outside_bytes"], 7216);
  EXPECT_EQ(told["classes"][0]["reachable"]["resident_bytes"], 4096);
  EXPECT_EQ(told["paths"][0]["outside_bytes"], 7216);
}

// A float here and there is in every program.
TEST(SnapshotText, WasteThatIsNoneIsCountedInOne) {
  ImageBuilder builder;
  for (int i = 0; i < 200; ++i) builder.global("Points", 0, builder.boxed_float());
  builder.global("Clock", 0, builder.boxed_float());
  builder.global("Clock", 1, builder.block(2, 255, "_j"));
  HeapImage image = builder.build();
  image.info.heap_words = 10'000;
  const pb::HeapWaste waste = waste_answer(image, ShortestPaths(image));
  const std::string text = waste_text(waste, {});
  EXPECT_THAT(text, HasSubstr("boxed floats"));
  EXPECT_THAT(text, HasSubstr("  … 1 more"));
  EXPECT_THAT(text, HasSubstr("… 1 more, of less than 0.1 % of the heap each"));
  EXPECT_THAT(text, Not(HasSubstr("Clock")));
  EXPECT_THAT(waste_text(waste, {.limit = 0}),
              AllOf(HasSubstr("boxed integers"), HasSubstr("global Clock, field 0")));
}

TEST(SnapshotText, SmallRowsAreCountedInOne) {
  ImageBuilder builder;
  builder.global("Large", 0, builder.string(9'000));
  for (int i = 0; i < 7; ++i) builder.global("Small" + std::to_string(i), 0, builder.string(9));
  HeapImage image = builder.build();
  const RetainedTable table = find_retained(image, {});
  const std::string text = retained_text(retained_of(image, table), {});
  EXPECT_THAT(text, HasSubstr("  … 7 more"));
  EXPECT_THAT(text, Not(HasSubstr("Small")));
}

TEST(SnapshotText, NoRowIsTooSmallForOneWhoWantsAll) {
  ImageBuilder builder;
  builder.global("Large", 0, builder.string(9'000));
  for (int i = 0; i < 7; ++i) builder.global("Small" + std::to_string(i), 0, builder.string(9));
  HeapImage image = builder.build();
  const RetainedTable table = find_retained(image, {});
  const pb::HeapRetained all = retained_of(image, table, {.limit = 0});
  const std::string text = retained_text(all, {.limit = 0});
  for (int i = 0; i < 7; ++i) EXPECT_THAT(text, HasSubstr("Small" + std::to_string(i)));
  EXPECT_THAT(numeric_json(all), HasSubstr("Small6"));
}

TEST(SnapshotText, RowsAreSmallBesideWhatIsShown) {
  ImageBuilder builder;
  builder.global("Large", 0, builder.string(9'000));
  const std::uint32_t block = builder.block(2);
  builder.point(block, 0, builder.string(9));
  builder.global("Small", 3, block);
  HeapImage image = builder.build();
  const RetainedTable table = find_retained(image, {});
  const auto under = table.roots_named(
      [](const std::string& name) { return name == "globals / Small / field 3"; });
  const pb::HeapRetained small = retained_answer(image.info, table, under);
  EXPECT_THAT(retained_text(small, {}), HasSubstr("    string\n"));
  EXPECT_THAT(numeric_json(small), HasSubstr("\"string\""));
}

TEST(SnapshotText, WaysAreNotCutAtTheWidthOfATerminal) {
  const HeapImage image = Shop(20).image();
  const std::string text =
      why_text(why_answer(image.info, Why(image, all_sites(image))), {.style = {.width = 40}});
  EXPECT_THAT(text, HasSubstr("global Cache, field 2 → block(4) field 1 → array[*] → block(3)"));
}

TEST(SnapshotText, NamesOfProgramsCannotMoveTheCursor) {
  ImageBuilder builder;
  builder.global("M\033[2J", 0, builder.block(3, 247, "f\ng"));
  builder.sample(0, 1, builder.site({{.function = "s\rt"}}));
  HeapImage image = builder.build();
  const RetainedTable table = find_retained(image, {});
  const Why why(image, all_sites(image));
  for (const std::string& text :
       {retained_text(retained_of(image, table), {}), why_text(why_answer(image.info, why), {}),
        census_text(census_of(image), {})}) {
    EXPECT_THAT(text, Not(HasSubstr("\033")));
    EXPECT_THAT(text, Not(HasSubstr("\r")));
    EXPECT_THAT(text, Not(HasSubstr("f\ng")));
  }
}

TEST(SnapshotJson, TreesAreNested) {
  HeapImage image = Shop(200).image();
  const RetainedTable table = find_retained(image, {});
  const Json json = json_of(retained_of(image, table, {.limit = 0}));
  const Json& globals = json["roots"][0];
  EXPECT_EQ("globals", globals["name"]);
  EXPECT_EQ("Cache", globals["children"][0]["name"]);
  EXPECT_EQ("field 2", globals["children"][0]["children"][0]["name"]);
  EXPECT_EQ(table.rows[0].words * 8, json["reachable"]["bytes"]);
  std::uint64_t bytes = 0;
  for (const Json& root : json["roots"]) bytes += root["bytes"].get<std::uint64_t>();
  EXPECT_EQ(table.rows[0].words * 8, bytes);
}

TEST(SnapshotJson, EstimatesHaveTheirError) {
  const HeapImage image = Shop(200).image();
  const Json json = json_of(why_answer(image.info, Why(image, all_sites(image))));
  EXPECT_THAT(json["sites"], ElementsAre("Order.parse order.ml:17", "Session.login session.ml:8"));
  const Json& reachable = json["reachable"];
  EXPECT_EQ(250, reachable["sampled_blocks"]);
  EXPECT_DOUBLE_EQ(1'250 * 8, reachable["bytes"]);
  EXPECT_GT(reachable["bytes_stderr"], 0);
  EXPECT_LT(reachable["bytes_lower"], reachable["bytes"]);
  EXPECT_EQ(25, json["garbage"]["sampled_blocks"]);
  EXPECT_EQ(1, json["dead"]["sampled_blocks"]);
  EXPECT_EQ(200, json["paths"][0]["sampled_blocks"]);
}

TEST(SnapshotJson, CensusDiffAndWaste) {
  HeapImage before = Shop(200).image(), after = Shop(500).image();
  const ShortestPaths paths(before);
  const ImageCensus census = count_image(before, paths);
  const Json shown = json_of(census_of(before));
  EXPECT_EQ(census.total.reachable.words * 8, shown["heap"]["reachable"]["bytes"]);
  EXPECT_EQ(10, shown["heap"]["young"]["blocks"]);
  EXPECT_EQ(300 * 8, shown["free"]["largest_bytes"]);
  EXPECT_EQ("/srv/shop.exe", shown["snapshot"]["program"]);
  const Json waste = json_of(waste_answer(before, paths));
  EXPECT_EQ("sparse hash tables", waste["patterns"][0]["pattern"]);
  EXPECT_EQ("global Cache, field 2", waste["patterns"][0]["places"][0]["root"]);
  const ImageSummary base = summarize(before), other = summarize(after);
  const Json diff = json_of(diff_answer(base, other));
  EXPECT_EQ(true, diff["same_process"]);
  EXPECT_EQ("globals", diff["roots"][0]["name"]);
  EXPECT_EQ(300 * (4 + 6 + 7 + 2) * 8, diff["roots"][0]["change_bytes"]);
  EXPECT_GT(diff["sites"][0]["stayed"]["bytes"], 0);
}

}  // namespace
}  // namespace memprofd::ctl
