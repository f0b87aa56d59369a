// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/scratch_map.h"

#include <bpf/bpf.h>
#include <gtest/gtest.h>

namespace memprofd {
namespace {

constexpr std::uint32_t kBytes = 4096;

std::uint32_t id_of(const ScratchMap& map) {
  bpf_map_info info = {};
  std::uint32_t size = sizeof info;
  EXPECT_EQ(::bpf_obj_get_info_by_fd(map.fd.get(), &info, &size), 0);
  EXPECT_EQ(info.max_entries, map.slots);
  return info.id;
}

TEST(ScratchMap, IsOneForAllWhoseSlotsAreOfTheSameSize) {
  const auto first = ScratchMap::of(kBytes);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*first, *ScratchMap::of(kBytes));
  const auto other = ScratchMap::of(2 * kBytes);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NE(id_of(**first), id_of(**other));
}

TEST(ScratchMap, GoesWithTheLastThatHasIt) {
  auto map = *ScratchMap::of(kBytes);
  const std::uint32_t id = id_of(*map);
  map.reset();
  const auto next = ScratchMap::of(kBytes);
  EXPECT_NE(id_of(**next), id);
}

}  // namespace
}  // namespace memprofd
