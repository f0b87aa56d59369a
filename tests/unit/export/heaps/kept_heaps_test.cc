// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/heaps/kept_heaps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "daemon/export/heaps/heap_answers.h"
#include "tests/kit/fake_service.h"
#include "tests/kit/heap_file.h"
#include "tests/kit/image_builder.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace pb = ::memprof::v1;

class KeptHeapsTest : public ::testing::Test {
 protected:
  KeptHeapsTest() {
    folder_.write("auto-a.heap", some_heap_file(7, 3));
    folder_.write("auto-b.heap", some_heap_file(9, 5));
  }
  absl::StatusOr<pb::HeapDiff> compare(const std::string& base, const std::string& other,
                                       std::uint32_t limit = 0) {
    pb::CompareHeapsRequest request;
    request.set_base(base);
    request.set_other(other);
    request.set_limit(limit);
    return kept_.compare(request);
  }

  const TempDir folder_;
  testing::FakeService service_{{testing::fixed_target()}};
  HeapAnalyser heaps_{{.directory = folder_.path()}};
  KeptHeaps kept_{heaps_, service_};
};

TEST_F(KeptHeapsTest, AreListedByProgram) {
  pb::ListHeapsRequest request;
  EXPECT_EQ(2, kept_.list(request).heaps_size());
  request.set_pid(4242);
  const pb::ListHeapsResponse list = kept_.list(request);
  ASSERT_EQ(2, list.heaps_size());
  EXPECT_EQ(folder_.path(), list.directory());
  const pb::KeptHeap& latest = list.heaps(0);
  EXPECT_EQ("auto-b.heap", latest.name());
  EXPECT_EQ("/srv/shop.exe", latest.program());
  EXPECT_EQ(4242, latest.pid());
  EXPECT_EQ(9, latest.unix_ns());
  EXPECT_EQ(8u * 123'456, latest.heap_bytes());
  EXPECT_EQ(some_heap_file(9, 5).size(), latest.file_bytes());
  request.set_pid(1);
  EXPECT_THAT(kept_.list(request).heaps(), IsEmpty());
}

TEST_F(KeptHeapsTest, TwoAreCompared) {
  const auto diff = compare("auto-a.heap", "auto-b.heap");
  ASSERT_TRUE(diff.ok()) << diff.status();
  EXPECT_TRUE(diff->same_process());
  EXPECT_EQ("auto-a.heap", diff->base().name());
  EXPECT_EQ(9, diff->other().unix_ns());
  ASSERT_EQ(4, diff->heap_size());
  EXPECT_EQ("reachable", diff->heap(0).name());
  EXPECT_EQ(8 * (2 + 2 * 2), diff->heap(0).change_bytes());
  EXPECT_EQ(4u, diff->heap(0).base().blocks());
  EXPECT_EQ(6u, diff->heap(0).other().blocks());
  ASSERT_EQ(3, diff->roots_size());
  EXPECT_EQ("globals / Cache / field 2", diff->roots(2).name());
  ASSERT_EQ(3, diff->shapes_size());
  EXPECT_EQ("block(5)", diff->shapes(0).name());
  EXPECT_EQ(48, diff->shapes(0).change_bytes());
  EXPECT_EQ("block(3)", diff->shapes(2).name());
  EXPECT_EQ(-32, diff->shapes(2).change_bytes());
  ASSERT_EQ(1, diff->sites_size());
  const pb::HeapSiteDiffRow& site = diff->sites(0);
  EXPECT_EQ("Cache.add cache.ml:41", site.name());
  EXPECT_EQ(3u, site.base().sampled_blocks());
  EXPECT_EQ(5u, site.other().sampled_blocks());
  EXPECT_EQ(3u, site.stayed().sampled_blocks()) << "what is new is the rest";
  EXPECT_NEAR(2 * site.base().bytes() / 3, site.change_bytes(), 1e-6);
  EXPECT_GT(site.change_bytes_stderr(), 0);
}

TEST_F(KeptHeapsTest, OmittedRowsAreCounted) {
  const auto diff = compare("auto-a.heap", "auto-b.heap", 1);
  ASSERT_TRUE(diff.ok()) << diff.status();
  EXPECT_EQ(4, diff->heap_size()) << "these are all told";
  EXPECT_EQ(1, diff->roots_size());
  EXPECT_EQ(2u, diff->more_roots());
  EXPECT_EQ(2u, diff->more_shapes());
  EXPECT_EQ(0u, diff->more_sites());
}

TEST_F(KeptHeapsTest, CountedOnesReportTheirContents) {
  pb::ListCensusesRequest request;
  request.set_pid(4242);
  EXPECT_EQ(2u, kept_.censuses(request)->uncounted());
  EXPECT_EQ(0, kept_.censuses(request)->heaps_size());
  ASSERT_TRUE(heaps_.count_kept("auto-b.heap").ok());
  ASSERT_TRUE(compare("auto-a.heap", "auto-b.heap").ok()) << "who asks about one counts it, too";
  request.set_limit(1);
  const auto told = kept_.censuses(request);
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ(0u, told->uncounted());
  ASSERT_EQ(2, told->heaps_size());
  EXPECT_EQ("auto-a.heap", told->heaps(0).name()) << "the earliest first";
  ASSERT_EQ(1, told->classes_size());
  EXPECT_EQ("float", told->classes(0).name());
  ASSERT_EQ(2, told->classes(0).counts_size());
  EXPECT_EQ(3u, told->classes(0).counts(0).blocks());
  EXPECT_EQ(5u, told->classes(0).counts(1).blocks());
  ASSERT_EQ(2, told->other_size());
  EXPECT_EQ(8u * 4, told->other(0).bytes());
  EXPECT_EQ(8u * 6, told->other(1).bytes());
  EXPECT_EQ(4u, told->types(0).reachable().blocks());
  request.set_limit(2);
  EXPECT_EQ("block(5)", kept_.censuses(request)->classes(1).name());
  EXPECT_EQ(0u, kept_.censuses(request)->classes(1).counts(0).blocks()) << "not there before";
  request.set_pid(1);
  EXPECT_EQ(0, kept_.censuses(request)->heaps_size());
  request.set_limit(101);
  EXPECT_TRUE(absl::IsInvalidArgument(kept_.censuses(request).status()));
}

TEST_F(KeptHeapsTest, UnknownOrDamagedOnesAreRefused) {
  EXPECT_EQ(absl::StatusCode::kNotFound, compare("auto-a.heap", "auto-c.heap").status().code());
  EXPECT_EQ(absl::StatusCode::kNotFound, compare("../auto-a.heap", "auto-b.heap").status().code());
  const std::string whole = some_heap_file(9);
  folder_.write("auto-cut.heap", whole.substr(0, whole.size() - 1));
  const auto cut = compare("auto-a.heap", "auto-cut.heap");
  EXPECT_EQ(absl::StatusCode::kInvalidArgument, cut.status().code());
  EXPECT_THAT(std::string(cut.status().message()), HasSubstr("is truncated or damaged"));
}

TEST_F(KeptHeapsTest, OneThatIsTakenIsKept) {
  pb::KeepHeapRequest request;
  request.set_pid(4242);
  // The service returns no heap file.
  const auto kept = kept_.keep(request, [] { return true; });
  EXPECT_EQ(absl::StatusCode::kInvalidArgument, kept.status().code());
  EXPECT_THAT(service_.calls(), ElementsAre("snapshot 4242 0.05"));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    files += entry.path().filename().string().starts_with("auto-server_exe-4242-") ? 1 : 0;
  }
  EXPECT_EQ(1u, files);
}

TEST_F(KeptHeapsTest, OneThatCannotBeTakenLeavesNothing) {
  service_.fail_with(absl::OutOfRangeError("too long"));
  pb::KeepHeapRequest request;
  request.set_pid(4242);
  const auto kept = kept_.keep(request, [] { return true; });
  EXPECT_EQ(absl::StatusCode::kFailedPrecondition, kept.status().code());
  EXPECT_EQ(2, std::distance(std::filesystem::directory_iterator(folder_.path()),
                             std::filesystem::directory_iterator()));
}

TEST_F(KeptHeapsTest, WithoutADirectoryNoProgramIsStopped) {
  HeapAnalyser none;
  KeptHeaps kept(none, service_);
  pb::KeepHeapRequest request;
  request.set_pid(4242);
  EXPECT_EQ(absl::StatusCode::kFailedPrecondition,
            kept.keep(request, [] { return true; }).status().code());
  EXPECT_THAT(service_.calls(), IsEmpty());
  EXPECT_EQ("", kept.list({}).directory());
}

TEST(WasteOfHeap, IsByPattern) {
  ImageBuilder builder;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::uint32_t table = builder.block(4);
    builder.point(table, 1, builder.block(1024u << i));
    builder.global("Cache", i, table);
  }
  const HeapImage image = builder.build();
  const pb::HeapWaste waste = waste_answer(image, ShortestPaths(image), 2);
  EXPECT_EQ(4242, waste.snapshot().pid());
  ASSERT_EQ(1, waste.patterns_size());
  const pb::WastePattern& tables = waste.patterns(0);
  EXPECT_THAT(tables.pattern(), HasSubstr("hash tables"));
  EXPECT_THAT(tables.instead(), HasSubstr("Hashtbl.create 1"));
  EXPECT_EQ(3u, tables.blocks());
  EXPECT_EQ(8u * (1024 + 2048 + 4096 + 3), tables.bytes());
  EXPECT_EQ(8u * (1024 + 2048 + 4096 - 3), tables.bytes_to_win());
  ASSERT_EQ(2, tables.places_size());
  EXPECT_EQ(8u * (4096 - 1), tables.places(0).bytes_to_win());
  EXPECT_THAT(tables.places(0).root(), HasSubstr("Cache, field 2"));
  EXPECT_EQ(1u, tables.more_places());
}

}  // namespace
}  // namespace memprofd
