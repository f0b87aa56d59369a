// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/heap_service.h"

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

TEST(DescribedHeap, WhatMakesNoSenseStopsNoProgram) {
  testing::FakeService service({testing::fixed_target()});
  ControlService control(service);
  pb::DescribeHeapRequest request;
  request.set_pid(4242);
  request.set_depth(101);
  InnerHeaps heaps;
  const auto answer = describe_heap(heaps, control, request, [] { return true; });
  EXPECT_EQ(absl::StatusCode::kInvalidArgument, answer.status().code());
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("bad depth"));
  EXPECT_TRUE(service.calls().empty());
}

}  // namespace
}  // namespace memprofd
