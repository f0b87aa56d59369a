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
  EXPECT_NEAR(0.0023, heap.pause_seconds(), 1e-9);
  EXPECT_EQ(7u, heap.all().reachable().blocks());
  EXPECT_EQ(8u * (3 * 3 + 3 * 2 + 10), heap.all().reachable().bytes());
  EXPECT_EQ(40u, heap.all().garbage().bytes());
  ASSERT_EQ(3, heap.classes_size());
  EXPECT_EQ("string", heap.classes(0).name());
  EXPECT_EQ(80u, heap.classes(0).reachable().bytes());
  EXPECT_EQ(1u, heap.classes(0).garbage().blocks());
  EXPECT_EQ(0u, heap.more_classes());
}

TEST(DescribedHeap, IsCountedBySize) {
  HeapImage image = some_heap();
  image.dead.add(3, 1, 7);
  image.free.add(0, 3, 2);
  image.free.add(0, 4, 1);
  image.free.add(0, 100, 1);
  const pb::DescribeHeapResponse heap = describe_heap(image, {});
  ASSERT_EQ(4, heap.sizes_size());
  EXPECT_EQ("2 words", heap.sizes(0).name());
  EXPECT_EQ(3u, heap.sizes(0).reachable().blocks());
  EXPECT_EQ(7u, heap.sizes(0).dead().blocks());
  EXPECT_EQ("10 words", heap.sizes(3).name());
  ASSERT_EQ(2, heap.free_sizes_size());
  EXPECT_EQ(32u, heap.free_sizes(0).most_bytes());
  EXPECT_EQ(3u, heap.free_sizes(0).free().blocks());
  EXPECT_EQ(80u, heap.free_sizes(0).free().bytes());
  EXPECT_EQ(1024u, heap.free_sizes(1).most_bytes());
  EXPECT_EQ(800u, heap.largest_free_bytes());
  EXPECT_EQ(880u, heap.free().bytes());
}

TEST(DescribedHeap, IsHeldByRootsThatUnfold) {
  const pb::DescribeHeapResponse heap = described({});
  ASSERT_EQ(1, heap.holders_size());
  EXPECT_EQ("globals", heap.holders(0).name());
  EXPECT_EQ(7u, heap.holders(0).blocks());
  const pb::HeapHolder& module = heap.holders(0).children(0);
  EXPECT_EQ("Cache", module.name());
  ASSERT_EQ(2, module.children_size());
  EXPECT_EQ("field 2", module.children(0).name());
  EXPECT_EQ(8u * 15, module.children(0).bytes());
  EXPECT_EQ("block(2)", module.children(0).children(0).name());
  EXPECT_EQ("field 3", module.children(1).name());
}

TEST(DescribedHeap, WhatIsLeftOutIsCounted) {
  pb::DescribeHeapRequest request;
  request.set_limit(1);
  const pb::DescribeHeapResponse heap = described(request);
  EXPECT_EQ(1, heap.classes_size());
  EXPECT_EQ(2u, heap.more_classes());
  const pb::HeapHolder& module = heap.holders(0).children(0);
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

TEST(DescribedHeap, TellsWhatWaitsForTheCollector) {
  HeapImage image = heap_with_garbage();
  const pb::HeapGarbage garbage = describe_heap(image, {}).garbage();
  EXPECT_EQ(3u, garbage.all().blocks());
  EXPECT_EQ(1u, garbage.young().blocks());
  EXPECT_EQ(7u, garbage.dead().blocks());
  EXPECT_DOUBLE_EQ(2.5, garbage.longest_wait_seconds());
  ASSERT_EQ(2, garbage.sites_size());
  const pb::GarbageSite& floats = garbage.sites(0);
  EXPECT_EQ("Cache.copy cache.ml:41", floats.name());
  EXPECT_EQ(2u, floats.sampled_blocks());
  EXPECT_NEAR(3 / 0.01 * 8, floats.garbage().bytes(), 30);
  EXPECT_NEAR(1 / 0.01 * 8, floats.young().bytes(), 10);
  EXPECT_DOUBLE_EQ(4, floats.age_p50_seconds());
  EXPECT_DOUBLE_EQ(4, floats.longest_age_seconds());
  EXPECT_DOUBLE_EQ(2.5, floats.longest_wait_seconds());
  EXPECT_FALSE(garbage.sites(1).has_age_p50_seconds());
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

TEST(DescribedHeap, WhatMakesNoSenseStopsNoProgram) {
  testing::FakeService service({testing::fixed_target()});
  ControlService control(service);
  pb::DescribeHeapRequest request;
  request.set_pid(4242);
  request.set_depth(101);
  InnerHeaps heaps;
  const auto answer = describe_heap(heaps, control, request, request.pid(), [] { return true; });
  EXPECT_EQ(absl::StatusCode::kInvalidArgument, answer.status().code());
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("bad depth"));
  EXPECT_TRUE(service.calls().empty());
}

}  // namespace
}  // namespace memprofd
