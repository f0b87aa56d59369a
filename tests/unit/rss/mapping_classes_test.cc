// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/mapping_classes.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

constexpr char kMaps[] =
    "1000-2000 r-xp 00000000 08:01 10 /bin/server\n"
    "2000-3000 r--p 00001000 08:01 10 /bin/server\n"
    "3000-4000 rw-p 00002000 08:01 10 /bin/server\n"
    "4000-5000 rw-p 00000000 00:00 0 \n"
    "8000-9000 rw-p 00000000 00:00 0 [heap]\n"
    "10000-11000 r--s 00000000 08:01 11 /data/table\n"
    "11000-12000 rw-s 00000000 00:05 12 /dev/shm/ring\n"
    "13000-14000 ---p 00000000 00:00 0 \n"
    "14000-15000 rw-p 00000000 00:00 0 \n"
    "20000-21000 r-xp 00000000 08:01 13 /lib/libc.so.6\n"
    "21000-22000 rw-p 00001000 08:01 13 /lib/libc.so.6\n"
    "22000-23000 rw-p 00000000 00:00 0 \n"
    "24000-25000 r-xp 00000000 00:01 14 /memfd:memprof_agent (deleted)\n"
    "25000-26000 rw-p 00000000 00:00 0 \n"
    "30000-31000 r--p 00000000 00:00 0 [vvar]\n"
    "31000-32000 r-xp 00000000 00:00 0 [vdso]\n"
    "40000-41000 rw-p 00000000 00:00 0 [stack]\n";

class MappingClasses : public testing::Test {
 protected:
  ClassifiedMappings classify(const std::string& text) {
    return classify_mappings(parse_maps(text), "/bin/server", names_);
  }
  static RssClass at(const ClassifiedMappings& mappings, std::uint64_t address) {
    const Extent* extent = mappings.layer.find(address);
    return extent == nullptr ? RssClass::kOther : extent->kind;
  }
  PartNames names_;
};

TEST_F(MappingClasses, FollowFromFilesAndRights) {
  const auto mappings = classify(kMaps);
  EXPECT_EQ(at(mappings, 0x1000), RssClass::kCode);
  EXPECT_EQ(at(mappings, 0x2000), RssClass::kReadOnlyData);
  EXPECT_EQ(at(mappings, 0x3000), RssClass::kStaticData);
  EXPECT_EQ(at(mappings, 0x8000), RssClass::kMallocUnwalked);
  EXPECT_EQ(at(mappings, 0x10000), RssClass::kMappedFile);
  EXPECT_EQ(at(mappings, 0x11000), RssClass::kSharedMemory);
  EXPECT_EQ(at(mappings, 0x13000), RssClass::kReserved);
  EXPECT_EQ(at(mappings, 0x24000), RssClass::kAgent);
  EXPECT_EQ(at(mappings, 0x31000), RssClass::kKernel);
  EXPECT_EQ(at(mappings, 0x40000), RssClass::kThreadStack);
  EXPECT_EQ(mappings.layer.find(0x30000), nullptr) << "no part of the resident size";
}

TEST_F(MappingClasses, WhatContinuesTheDataOfAFileIsItsOwn) {
  const auto mappings = classify(kMaps);
  EXPECT_EQ(at(mappings, 0x4000), RssClass::kStaticData);
  EXPECT_EQ(names_.name(mappings.layer.find(0x4000)->name), "/bin/server");
  EXPECT_EQ(names_.name(mappings.layer.find(0x22000)->name), "/lib/libc.so.6");
  EXPECT_EQ(at(mappings, 0x14000), RssClass::kOther);
}

TEST_F(MappingClasses, TellWhereMallocAndStacksMayBe) {
  const auto mappings = classify(kMaps);
  ASSERT_EQ(mappings.break_heap.size(), 1u);
  EXPECT_EQ(mappings.break_heap[0].begin, 0x8000u);
  ASSERT_EQ(mappings.libc_data.size(), 2u);
  EXPECT_EQ(mappings.libc_data[0].begin, 0x21000u);
  ASSERT_EQ(mappings.guarded.size(), 1u);
  EXPECT_EQ(mappings.guarded[0].begin, 0x14000u);
}

TEST_F(MappingClasses, OfAStaticProgramHaveItsDataAsThatOfTheCLibrary) {
  const auto mappings = classify(
      "1000-2000 r-xp 00000000 08:01 10 /bin/server\n3000-4000 rw-p 00002000 08:01 10 "
      "/bin/server\n");
  ASSERT_EQ(mappings.libc_data.size(), 1u);
  EXPECT_EQ(mappings.libc_data[0].begin, 0x3000u);
}

TEST_F(MappingClasses, TooManyAreRefusedInOneWay) {
  std::vector<Mapping> maps(1u << 18);
  EXPECT_TRUE(check_number(maps, 4242).ok());
  maps.emplace_back();
  EXPECT_EQ(check_number(maps, 4242).message(),
            "pid 4242 has 262145 mappings: more than 262144 are not read");
}

TEST_F(MappingClasses, KnowOtherAllocatorsByTheirFiles) {
  EXPECT_EQ(classify(kMaps).other_allocator, "");
  EXPECT_EQ(classify("1000-2000 r-xp 00000000 08:01 10 /lib/libjemalloc.so.2\n").other_allocator,
            "jemalloc");
}

}  // namespace
}  // namespace memprofd
