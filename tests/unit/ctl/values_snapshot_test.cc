// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/snapshot/values_snapshot.h"

#include <gtest/gtest.h>

#include "daemon/ctl/render/render_values.h"
#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

class ValuesSnapshotTest : public ::testing::Test {
 protected:
  // Value of Shop[field], by a reference.
  pb::Value& held(std::uint32_t field, std::uint32_t block) {
    const std::uint32_t reference = heap_.block(1);
    heap_.point(reference, 0, block);
    heap_.global("Shop", field, reference);
    pb::NamedValue& named = *values_.add_values();
    named.set_module("Shop");
    named.set_field(field);
    named.mutable_value()->set_kind(pb::VALUE_KIND_REFERENCE);
    return *named.mutable_value()->add_fields();
  }
  std::uint32_t list(int cells) {
    std::uint32_t next = heap_.block(1);
    for (int i = 0; i < cells; ++i) next = heap_.cell(heap_.string(1), next);
    return next;
  }

  ImageBuilder heap_;
  pb::ListValuesResponse values_;
};

TEST_F(ValuesSnapshotTest, WhatIsTooLargeIsCounted) {
  pb::Value& value = held(2, list(30'000));
  value.set_kind(pb::VALUE_KIND_LIST);
  value.set_size(20'000);
  value.set_size_is_least(true);
  value.add_fields()->set_kind(pb::VALUE_KIND_INTEGER);
  EXPECT_TRUE(ctl::has_too_large(values_));
  EXPECT_EQ(ctl::complete_values(heap_.build(), values_), 1);
  EXPECT_EQ(ctl::value_text(values_.values(0).value()),
            "ref list of 30000 [0; ..] (of a snapshot, 1.14 MiB)");
  EXPECT_FALSE(ctl::has_too_large(values_));
}

TEST_F(ValuesSnapshotTest, WhatWasReadStays) {
  pb::Value& value = held(2, list(30'000));
  value.set_kind(pb::VALUE_KIND_LIST);
  value.set_size(3);
  EXPECT_FALSE(ctl::has_too_large(values_));
  EXPECT_EQ(ctl::complete_values(heap_.build(), values_), 0);
  EXPECT_FALSE(value.is_of_snapshot());
}

TEST_F(ValuesSnapshotTest, AnotherKindByThenStays) {
  pb::Value& value = held(2, list(30'000));
  value.set_kind(pb::VALUE_KIND_TABLE);
  value.set_size(70'000);
  EXPECT_TRUE(ctl::has_too_large(values_));
  EXPECT_EQ(ctl::complete_values(heap_.build(), values_), 0);
  EXPECT_EQ(value.size(), 70'000u);
}

TEST_F(ValuesSnapshotTest, WhatTheCollectorOvertookIsTold) {
  held(2, list(3));
  pb::Value& value = *values_.mutable_values(0)->mutable_value();
  value.Clear();
  value.set_why_unread("the collector was faster at each try");
  value.set_kind(pb::VALUE_KIND_UNREAD);
  EXPECT_TRUE(ctl::has_too_large(values_));
  EXPECT_EQ(ctl::complete_values(heap_.build(), values_), 1);
  EXPECT_EQ(ctl::value_text(value), "ref list of 3 [..] (of a snapshot, 136 B)");
}

// Its nodes are not shown, because finding them used up the limit.
TEST_F(ValuesSnapshotTest, ATreeIsTold) {
  const std::uint32_t node = heap_.block(5), other = heap_.block(5);
  heap_.point(node, 0, other);
  pb::Value& value = held(2, node);
  value.set_kind(pb::VALUE_KIND_BLOCK);
  value.set_size(5);
  for (int i = 0; i < 4; ++i) value.add_fields()->set_kind(pb::VALUE_KIND_UNREAD);
  pb::Value& height = *value.add_fields();
  height.set_kind(pb::VALUE_KIND_INTEGER);
  height.set_integer(3);
  EXPECT_FALSE(ctl::has_too_large(values_));
  height.set_integer(16);
  EXPECT_EQ(ctl::complete_values(heap_.build(), values_), 1);
  EXPECT_EQ(value.kind(), pb::VALUE_KIND_TREE);
  EXPECT_EQ(value.size(), 2u);
}

}  // namespace
}  // namespace memprofd
