// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/heaps/heap_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kit/fake_service.h"
#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

using ::testing::HasSubstr;

namespace pb = ::memprof::v1;

// Two globals of a module, of which one keeps a list of three floats; a string is garbage.
HeapImage some_heap() {
  ImageBuilder builder;
  std::uint32_t list = builder.cell(builder.boxed_float());
  for (int i = 0; i < 2; ++i) list = builder.cell(builder.boxed_float(), list);
  builder.global("Cache", 2, list);
  builder.global("Cache", 3, builder.string(9));
  builder.string(4);
  return builder.build();
}

pb::DescribeHeapResponse described(const pb::DescribeHeapRequest& request) {
  HeapImage image = some_heap();
  return describe_heap(image, request);
}

TEST(DescribedHeap, IsCountedByClass) {
  const pb::DescribeHeapResponse heap = described({});
  EXPECT_NEAR(0.0023, heap.census().snapshot().pause_seconds(), 1e-9);
  EXPECT_EQ(7u, heap.census().heap().reachable().blocks());
  EXPECT_EQ(8u * (3 * 3 + 3 * 2 + 10), heap.census().heap().reachable().bytes());
  EXPECT_EQ(40u, heap.census().heap().garbage().bytes());
  ASSERT_EQ(3, heap.census().shapes_size());
  EXPECT_EQ("string", heap.census().shapes(0).name());
  EXPECT_EQ(80u, heap.census().shapes(0).reachable().bytes());
  EXPECT_EQ(1u, heap.census().shapes(0).garbage().blocks());
  EXPECT_EQ(0u, heap.census().more_shapes());
}

TEST(DescribedHeap, IsCountedBySize) {
  HeapImage image = some_heap();
  image.dead.add(3, 1, 7);
  image.free.add(0, 3, 2);
  image.free.add(0, 4, 1);
  image.free.add(0, 100, 1);
  const pb::DescribeHeapResponse heap = describe_heap(image, {});
  ASSERT_EQ(4, heap.census().sizes_size());
  EXPECT_EQ("2 words", heap.census().sizes(0).name());
  EXPECT_EQ(3u, heap.census().sizes(0).reachable().blocks());
  EXPECT_EQ(7u, heap.census().sizes(0).dead().blocks());
  EXPECT_EQ("10 words", heap.census().sizes(3).name());
  const pb::HeapFree& free = heap.census().free();
  ASSERT_EQ(2, free.sizes_size());
  EXPECT_EQ(4u, free.sizes(0).most_words());
  EXPECT_EQ(3u, free.sizes(0).blocks());
  EXPECT_EQ(80u, free.sizes(0).bytes());
  EXPECT_EQ(128u, free.sizes(1).most_words());
  EXPECT_EQ(800u, free.largest_bytes());
  EXPECT_EQ(880u, free.bytes());
  EXPECT_NEAR(80.0 / 880, free.fragmentation(), 1e-9);
}

TEST(DescribedHeap, IsHeldByRootsThatUnfold) {
  const pb::DescribeHeapResponse heap = described({});
  ASSERT_EQ(1, heap.retained().roots_size());
  EXPECT_EQ("globals", heap.retained().roots(0).name());
  EXPECT_EQ(7u, heap.retained().roots(0).blocks());
  const pb::HeapHolder& module = heap.retained().roots(0).children(0);
  EXPECT_EQ("Cache", module.name());
  ASSERT_EQ(2, module.children_size());
  EXPECT_EQ("field 2", module.children(0).name());
  EXPECT_EQ(8u * 15, module.children(0).bytes());
  EXPECT_EQ("block(2)", module.children(0).children(0).name());
  EXPECT_EQ("field 3", module.children(1).name());
}

TEST(DescribedHeap, OmittedRowsAreCounted) {
  pb::DescribeHeapRequest request;
  request.set_limit(1);
  const pb::DescribeHeapResponse heap = described(request);
  EXPECT_EQ(1, heap.census().shapes_size());
  EXPECT_EQ(2u, heap.census().more_shapes());
  const pb::HeapHolder& module = heap.retained().roots(0).children(0);
  ASSERT_EQ(2, module.children_size());
  EXPECT_EQ(1u, module.children(1).more());
  EXPECT_EQ(80u, module.children(1).bytes());
  EXPECT_EQ("", module.children(1).name());
}

// Two floats of a site, one of them in a minor heap; of another site a string of unknown age.
HeapImage heap_with_garbage() {
  ImageBuilder builder;
  builder.global("Cache", 2, builder.string(9));
  const auto copy = builder.site({{.function = "Cache.copy", .file = "cache.ml", .line = 41}});
  const auto other = builder.site({{.function = "Order.make", .file = "order.ml", .line = 7}});
  const std::uint32_t old = builder.boxed_float(), young = builder.boxed_float();
  builder.sample(old, 2, copy, 1, 4'000'000'000);
  builder.sample(young, 1, copy, 2, 1'000'000'000);
  builder.sample(builder.string(3), 1, other, 3);
  builder.image().young.push_back({young, young + 1});
  builder.image().dead.add(3, 5, 7);
  builder.image().info.longest_wait_ns = 2'500'000'000;
  return builder.build();
}

TEST(DescribedHeap, ReportsFloatingGarbage) {
  HeapImage image = heap_with_garbage();
  const pb::HeapGarbage garbage = describe_heap(image, {}).garbage();
  EXPECT_EQ(3u, garbage.garbage().blocks());
  EXPECT_EQ(1u, garbage.young().blocks());
  EXPECT_EQ(7u, garbage.dead().blocks());
  EXPECT_DOUBLE_EQ(2.5, garbage.longest_wait_seconds());
  ASSERT_EQ(2, garbage.sites_size());
  const pb::GarbageSite& floats = garbage.sites(0);
  EXPECT_EQ("Cache.copy cache.ml:41", floats.name());
  EXPECT_EQ(2u, floats.sampled_blocks());
  EXPECT_NEAR(3 / 0.01 * 8, floats.bytes(), 30);
  EXPECT_NEAR(1 / 0.01 * 8, floats.young().bytes(), 10);
  EXPECT_DOUBLE_EQ(4, floats.ages().p50_seconds());
  EXPECT_DOUBLE_EQ(4, floats.ages().longest_seconds());
  EXPECT_DOUBLE_EQ(2.5, floats.longest_wait_seconds());
  EXPECT_FALSE(garbage.sites(1).ages().has_p50_seconds());
  EXPECT_DOUBLE_EQ(2.5, garbage.sites(1).longest_wait_seconds());
  pb::DescribeHeapRequest request;
  request.set_limit(1);
  HeapImage again = heap_with_garbage();
  const pb::HeapGarbage cut = describe_heap(again, request).garbage();
  EXPECT_EQ(1, cut.sites_size());
  EXPECT_EQ(1u, cut.more_sites());
  again = heap_with_garbage();
  again.info.longest_wait_ns = 0;
  const pb::HeapGarbage unknown = describe_heap(again, {}).garbage();
  EXPECT_FALSE(unknown.has_longest_wait_seconds());
  EXPECT_FALSE(unknown.sites(1).has_longest_wait_seconds());
}

// The service's file is no heap file, so a snapshot request reports that it is unreadable.
class HeapServiceTest : public ::testing::Test {
 protected:
  absl::Status why(int pid, const std::string& site) {
    pb::WhyRequest request;
    request.set_pid(pid);
    request.set_site(site);
    return taken_.why(request, pid, [] { return true; }).status();
  }

  testing::FakeService service_{{testing::fixed_target()}};
  ControlService control_{service_};
  QueryService queries_{service_};
  HeapAnalyser heaps_;
  HeapService taken_{heaps_, control_, queries_};
};

TEST_F(HeapServiceTest, ADepthOutOfRangeStopsNoProgram) {
  pb::DescribeHeapRequest request;
  request.set_pid(4242);
  request.set_depth(101);
  const auto answer = taken_.describe(request, request.pid(), [] { return true; });
  EXPECT_EQ(absl::StatusCode::kInvalidArgument, answer.status().code());
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("bad depth"));
  EXPECT_TRUE(service_.calls().empty());
}

TEST_F(HeapServiceTest, ASiteThatHasNothingAliveStopsNoProgram) {
  EXPECT_EQ(absl::StatusCode::kNotFound, why(4242, "Nowhere").code());
  EXPECT_EQ(absl::StatusCode::kInvalidArgument, why(4242, "(").code());
  EXPECT_EQ(absl::StatusCode::kNotFound, why(1, "x").code());
  EXPECT_TRUE(service_.calls().empty());
}

}  // namespace
}  // namespace memprofd
