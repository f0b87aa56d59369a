// SPDX-License-Identifier: Apache-2.0
// Counts how much of a heap file an SQL question reads and decodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "daemon/ctl/commands.h"
#include "tests/kit/command.h"
#include "tests/kit/heap_file.h"
#include "tests/kit/temp_dir.h"

namespace memprofd::ctl {
namespace {

using ::testing::HasSubstr;

// Bytes that this process has read from files.
std::uint64_t bytes_read() {
  std::ifstream in("/proc/self/io");
  std::string word;
  std::uint64_t bytes = 0;
  in >> word >> bytes;
  return bytes;
}

class QueryParts : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kFloats = 20'000;

  void SetUp() override { write(some_heap_file(1, kFloats)); }
  void write(const std::string& bytes) {
    bytes_ = bytes;
    std::ofstream(dir_.path("a.heap"), std::ios::binary | std::ios::trunc) << bytes;
  }
  absl::Status ask(const std::string& sql) {
    const std::uint64_t before = bytes_read();
    const absl::Status status =
        run_command(&add_snapshot, {"query", dir_.path("a.heap"), sql, "--out", dir_.path("out")});
    read_ = bytes_read() - before;
    return status;
  }
  std::string told() const {
    std::ifstream in(dir_.path("out"));
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  TempDir dir_;
  std::string bytes_;
  std::uint64_t read_ = 0;
};

TEST_F(QueryParts, WhatTheHeadTellsIsReadAlone) {
  ASSERT_TRUE(ask("SELECT program, heap_bytes FROM snapshot").ok());
  EXPECT_LT(read_, 4096u);
  EXPECT_THAT(told(), HasSubstr("/srv/shop.exe"));
  for (const char* more : {"SELECT pid FROM blocks, snapshot", "SELECT root_path(1) FROM snapshot",
                           "SELECT pid, (SELECT count(*) FROM roots) FROM snapshot"}) {
    ASSERT_TRUE(ask(more).ok()) << more;
    EXPECT_GT(read_, bytes_.size()) << more;
  }
  write(bytes_.substr(0, 300));
  EXPECT_TRUE(ask("SELECT pid FROM snapshot").ok());
  EXPECT_FALSE(ask("SELECT site FROM sites").ok());
  EXPECT_FALSE(ask("SELECT count(*) FROM blocks").ok());
}

// Blocks that cannot be decoded, with a good checksum.
TEST_F(QueryParts, WhereNoBlockIsAskedForNoneIsDecoded) {
  int pieces = 0;
  write(changed(bytes_, [&](PieceKind kind, std::string& payload) {
    if (kind == PieceKind::kBlocks) payload.assign(payload.size(), '\xff');
    pieces += kind == PieceKind::kBlocks ? 1 : 0;
    return true;
  }));
  ASSERT_LT(0, pieces);
  ASSERT_TRUE(ask("SELECT function FROM sites").ok());
  EXPECT_THAT(told(), HasSubstr("Cache.add"));
  EXPECT_TRUE(ask("SELECT sum(bytes) FROM free_sizes").ok());
  EXPECT_TRUE(ask("SELECT sum(bytes) FROM dead_sizes, snapshot").ok());
  EXPECT_THAT(
      std::string(ask("SELECT function, samples FROM sites JOIN samples USING (site)").message()),
      HasSubstr("is damaged at byte"));
}

TEST_F(QueryParts, TheirChecksumsAreLookedAtAllTheSame) {
  std::string damaged = bytes_;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
  write(damaged);
  EXPECT_THAT(std::string(ask("SELECT function FROM sites").message()),
              HasSubstr("is truncated or damaged"));
}

TEST_F(QueryParts, ATableHasTheSameRowsEitherWay) {
  for (const std::string table : {"snapshot", "sites", "free_sizes", "dead_sizes"}) {
    ASSERT_TRUE(ask("SELECT * FROM " + table).ok());
    const std::string alone = told();
    ASSERT_TRUE(ask("SELECT * FROM " + table + " WHERE (SELECT count(*) FROM blocks) > 0").ok());
    EXPECT_EQ(alone, told()) << table;
  }
}

}  // namespace
}  // namespace memprofd::ctl
