// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/sql/heap_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/snapshot/answers/root_tree.h"
#include "tests/kit/random_image.h"

namespace memprofd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Rows = std::vector<std::vector<std::string>>;

struct InWords {
  std::string operator()(std::monostate) const { return "NULL"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return std::to_string(value); }
  std::string operator()(std::string_view text) const { return std::string(text); }
  std::string operator()(const std::string& text) const { return text; }
};

absl::StatusOr<Rows> ask(HeapTables& tables, const std::string& sql,
                         const QueryLimits& limits = {}) {
  auto query = HeapQuery::prepare(tables, sql, limits);
  if (!query.ok()) return query.status();
  Rows rows;
  const absl::Status done = query->run([&](std::span<const SqlCell> row) {
    rows.emplace_back();
    for (const SqlCell& cell : row) rows.back().push_back(std::visit(InWords{}, cell));
    return true;
  });
  if (!done.ok()) return done;
  return rows;
}

// A table of one entry that a stack holds as well, a closure far away, and garbage.
class HeapQueryTest : public ::testing::Test {
 protected:
  HeapQueryTest() {
    table_ = builder_.block(300);
    entry_ = builder_.block(2, 1);
    text_ = builder_.string(4);
    handler_ = builder_.block(3, 247, "Server.handle");
    garbage_ = builder_.string(9);
    builder_.point(table_, 1, entry_);
    builder_.point(entry_, 0, text_);
    builder_.point(table_, 299, handler_);
    builder_.global("Cache", 2, table_);
    builder_.root({.kind = RootKind::kStack,
                   .owner = "thread 7",
                   .place = {.function = "Server.run", .file = "server.ml", .line = 42}},
                  entry_);
    const std::uint32_t site = builder_.site(
        {{.function = "Cache.add", .file = "cache.ml", .line = 3}, {.function = "Server.run"}});
    builder_.sample(text_, 2, site, 11);
    builder_.sample(garbage_, 1, site, 12);
    builder_.sample(HeapImage::kNoBlock, 1, site, 13);
    builder_.image().young.push_back({text_, text_ + 1});
    builder_.image().dead.add(3, 5, 7);
    builder_.image().free.add(0, 64, 2);
    builder_.image().chunk_bytes[text_] = {640, 600};
  }
  Rows rows(const std::string& sql) {
    HeapTables tables(builder_.build());
    const auto found = ask(tables, sql);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.value_or(Rows{});
  }
  std::string refusal(const std::string& sql, const QueryLimits& limits = {}) {
    HeapTables tables(builder_.build());
    const auto found = ask(tables, sql, limits);
    EXPECT_FALSE(found.ok()) << sql;
    return std::string(found.status().message());
  }

  ImageBuilder builder_;
  std::uint32_t table_, entry_, text_, handler_, garbage_;
};

TEST_F(HeapQueryTest, ABlockHasItsTypeOfTheSource) {
  builder_.image().types = {{}, {.name = "string list", .fields = 2}};
  set_types(builder_.image(), {0, 1, 0, 0, 0});
  EXPECT_THAT(rows("SELECT block, type, class FROM blocks WHERE block < 2"),
              ElementsAre(ElementsAre("0", "NULL", "array"),
                          ElementsAre("1", "string list", "string list")));
}

TEST_F(HeapQueryTest, Blocks) {
  EXPECT_THAT(
      rows("select * from blocks"),
      ElementsAre(
          ElementsAre("0", "0", "300", "2408", "array", "NULL", "1", "0", "global Cache, field 2",
                      "2440", "NULL", "NULL", "0", "0"),
          ElementsAre("1", "1", "2", "24", "block(2, tag 1)", "NULL", "1", "0",
                      "stack of thread 7, Server.run server.ml:42", "64", "NULL", "NULL", "0", "0"),
          ElementsAre("2", "252", "4", "40", "string", "NULL", "1", "1",
                      "stack of thread 7, Server.run server.ml:42", "40", "1", "NULL", "640",
                      "600"),
          ElementsAre("3", "247", "3", "32", "closure Server.handle", "Server.handle", "1", "0",
                      "global Cache, field 2", "32", "0", "NULL", "0", "0"),
          ElementsAre("4", "252", "9", "80", "string", "NULL", "0", "0", "NULL", "NULL", "NULL",
                      "NULL", "0", "0")));
}

TEST_F(HeapQueryTest, ContentsWhereThereAreSome) {
  EXPECT_THAT(rows("select count(*) from contents, fingerprints, buffers"),
              ElementsAre(ElementsAre("0")));
  builder_.put_contents(text_, "caf\xe9");
  builder_.image().contents.back().length = 31;
  builder_.put_contents(builder_.block(4, 254),
                        std::string("\0\0\0\0\0\0\xf8\x3f\0\0\0\0\0\0\xf0\x7f", 16));
  builder_.image().fingerprints.push_back({garbage_, ~std::uint64_t{0}});
  builder_.image().buffers.push_back({entry_, 77});
  EXPECT_THAT(rows("select * from contents"),
              ElementsAre(ElementsAre("2", "31", "4", "caf\xef\xbf\xbd"),
                          ElementsAre("5", "16", "16", "[1.5,null]")));
  EXPECT_THAT(rows("select value from contents where block = 5"),
              ElementsAre(ElementsAre("[1.5,null]")));
  EXPECT_THAT(rows("select * from fingerprints"), ElementsAre(ElementsAre("4", "-1")));
  EXPECT_THAT(rows("select used from buffers where block = 1"), ElementsAre(ElementsAre("77")));
}

TEST_F(HeapQueryTest, EdgesAndRoots) {
  EXPECT_THAT(rows("select * from edges"),
              ElementsAre(ElementsAre("0", "1", "1"), ElementsAre("0", "NULL", "3"),
                          ElementsAre("1", "0", "2")));
  EXPECT_THAT(rows("select * from roots"),
              ElementsAre(ElementsAre("0", "globals", "Cache", "2", "NULL", "NULL", "NULL",
                                      "global Cache, field 2"),
                          ElementsAre("1", "stacks", "thread 7", "NULL", "Server.run", "server.ml",
                                      "42", "stack of thread 7, Server.run server.ml:42")));
}

TEST_F(HeapQueryTest, SampledBlocksAndTheirCallstacks) {
  EXPECT_THAT(rows("select block, samples, state, sample_id, function, line, callstack "
                   "from samples join sites using (site)"),
              ElementsAre(ElementsAre("2", "2", "reachable", "11", "Cache.add", "3",
                                      "Cache.add cache.ml:3 < Server.run"),
                          ElementsAre("4", "1", "garbage", "12", "Cache.add", "3",
                                      "Cache.add cache.ml:3 < Server.run"),
                          ElementsAre("NULL", "1", "dead", "13", "Cache.add", "3",
                                      "Cache.add cache.ml:3 < Server.run")));
  EXPECT_THAT(rows("select sum(bytes) from samples"), ElementsAre(ElementsAre("3200.000000")));
}

TEST_F(HeapQueryTest, SizesAndTheSnapshotItself) {
  EXPECT_THAT(rows("select * from dead_sizes"), ElementsAre(ElementsAre("48", "7", "3")));
  EXPECT_THAT(rows("select * from free_sizes"), ElementsAre(ElementsAre("512", "2")));
  EXPECT_THAT(rows("select program, pid, ocaml_version, pause_seconds from snapshot"),
              ElementsAre(ElementsAre("/srv/shop.exe", "4242", "5.3.0", "0.002300")));
}

TEST_F(HeapQueryTest, WhatRootsRetain) {
  EXPECT_THAT(rows("select path, kind, blocks, bytes from retained where name = 'Cache'"),
              ElementsAre(ElementsAre("globals / Cache", "roots", "2", "2440")));
  EXPECT_THAT(rows("select name, bytes, parent, outside_bytes from retained where row = 0"),
              ElementsAre(ElementsAre("all roots", "2504", "NULL", "640")));
}

TEST_F(HeapQueryTest, RootPaths) {
  EXPECT_THAT(
      rows("select root_path(3), root_path(4), root_path(-1), root_path(99), root_path('x')"),
      ElementsAre(ElementsAre("global Cache, field 2 → array[*] → closure Server.handle", "NULL",
                              "NULL", "NULL", "NULL")));
}

TEST_F(HeapQueryTest, WhatBlocksLeadTo) {
  EXPECT_THAT(rows("select owner, reachable_blocks(block), reachable_bytes(block) from roots "
                   "group by root order by 1"),
              ElementsAre(ElementsAre("Cache", "4", "2504"), ElementsAre("thread 7", "2", "64")));
  EXPECT_THAT(
      rows("select reachable_bytes(block), reachable_bytes(block) filter (where tag = 252), "
           "reachable_blocks(block) from blocks"),
      ElementsAre(ElementsAre("2584", "120", "5")));
  EXPECT_THAT(rows("select reachable_bytes(-1), reachable_bytes(5), reachable_bytes('x'), "
                   "reachable_bytes(null), reachable_bytes(1.5)"),
              ElementsAre(ElementsAre("0", "0", "0", "0", "0")));
  EXPECT_THAT(rows("select reachable_bytes(block) from blocks where 0"),
              ElementsAre(ElementsAre("0")));
}

// A key is found by its value, in any notation.
TEST_F(HeapQueryTest, Keys) {
  EXPECT_THAT(rows("select target from edges where source = 1"), ElementsAre(ElementsAre("2")));
  EXPECT_THAT(rows("select target from edges where source = '1'"), ElementsAre(ElementsAre("2")));
  EXPECT_THAT(rows("select target from edges where source = 1.0"), ElementsAre(ElementsAre("2")));
  for (const char* none : {"1.5", "-1", "5", "9223372036854775807", "'x'", "null", "1e300"}) {
    EXPECT_THAT(rows(std::string("select b.block from blocks b, edges, samples s, roots r, sites "
                                 "where b.block = ") +
                     none),
                ElementsAre());
    EXPECT_THAT(rows(std::string("select 1 from edges where source = ") + none), ElementsAre());
    EXPECT_THAT(rows(std::string("select 1 from samples where block = ") + none), ElementsAre());
    EXPECT_THAT(rows(std::string("select 1 from sites where site = ") + none), ElementsAre());
  }
  EXPECT_EQ(1u, rows("select 1 from samples where block is null").size());
}

TEST_F(HeapQueryTest, NothingButReadingIsAllowed) {
  for (const char* sql :
       {"attach '/tmp/x.db' as x", "create table t(x)", "insert into blocks values (1)",
        "update blocks set tag = 1", "delete from edges", "pragma temp_store = file",
        "vacuum into '/tmp/x.db'", "begin", "detach main", "create virtual table t using blocks",
        "select load_extension('x')", "select * from pragma_database_list",
        "select writefile('/tmp/x', 'y')"}) {
    EXPECT_THAT(refusal(sql), HasSubstr("bad query: ")) << sql;
  }
  EXPECT_THAT(refusal(""), HasSubstr("is empty"));
  EXPECT_THAT(refusal("select '\nx"), HasSubstr("unrecognized token: \"'?x\"")) << "one line";
  EXPECT_THAT(refusal("select 1; select 2"), HasSubstr("one query at a time"));
  EXPECT_THAT(refusal("select colour from blocks"), HasSubstr("no such column: colour"));
  EXPECT_THAT(refusal("select zeroblob(100000000)"), HasSubstr("too big"));
  EXPECT_THAT(rows("select 1; "), ElementsAre(ElementsAre("1")));
}

TEST_F(HeapQueryTest, MemoryHasAnEnd) {
  EXPECT_THAT(
      refusal("with recursive n(x) as (select 1 union all select x + 1 from n where x < 1000000) "
              "select hex(randomblob(100)) as h from n order by h",
              {.memory_bytes = 4 << 20}),
      HasSubstr("needs more memory"));
  EXPECT_THAT(rows("select count(*) from blocks"), ElementsAre(ElementsAre("5")));
}

TEST(HeapQuery, RetainedBytesAreWhatWouldBeFree) {
  std::mt19937 random(7);
  for (int i = 0; i < 100; ++i) {
    const HeapImage image = random_image(random);
    const std::vector<bool> all = reached(image);
    HeapTables tables(image);
    const auto found = ask(tables, "select block, reachable, retained_bytes from blocks");
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(image.blocks(), found->size());
    for (std::uint32_t block = 0; block < image.blocks(); ++block) {
      const std::vector<bool> without = reached(image, block);
      std::uint64_t words = 0;
      for (std::uint32_t other = 0; other < image.blocks(); ++other) {
        if (all[other] && !without[other]) words += image.shape(other).words;
      }
      EXPECT_THAT((*found)[block], ElementsAre(std::to_string(block), all[block] ? "1" : "0",
                                               all[block] ? std::to_string(words * 8) : "NULL"));
    }
  }
}

TEST(HeapQuery, WhatEachRootLeadsToIsWhatAWalkFromItFinds) {
  std::mt19937 random(8);
  for (int i = 0; i < 200; ++i) {
    const HeapImage image = random_image(random);
    HeapTables tables(image);
    const auto found = ask(tables,
                           "select owner, kind, field, reachable_blocks(block), "
                           "reachable_bytes(block) from roots group by 1, 2, 3");
    ASSERT_TRUE(found.ok()) << found.status();
    for (const auto& row : *found) {
      const std::vector<bool> led =
          reached(image, HeapImage::kNoBlock, [&row](const RootName& name) {
            return name.owner == row[0] && root_kind_text(name.kind) == row[1] &&
                   (name.field == RootName::kNoField ? "NULL" : std::to_string(name.field)) ==
                       row[2];
          });
      std::uint64_t blocks = 0;
      std::uint64_t words = 0;
      for (std::uint32_t block = 0; block < image.blocks(); ++block) {
        if (!led[block]) continue;
        ++blocks;
        words += image.shape(block).words;
      }
      EXPECT_EQ(std::to_string(blocks), row[3]);
      EXPECT_EQ(std::to_string(words * 8), row[4]);
    }
  }
}

}  // namespace
}  // namespace memprofd
