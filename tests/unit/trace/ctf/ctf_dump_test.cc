// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/ctf/ctf_dump.h"

#include <gtest/gtest.h>

#include "daemon/trace/ctf/ctf_writer.h"
#include "tests/kit/ctf_trace.h"
#include "tests/kit/temp_dir.h"

namespace memprofd::ctf {
namespace {

std::vector<Location> locations_of(std::uint64_t code) {
  if (code == 3) return {};
  if (code == 2) return {{"b.ml", "B.outer", 10, 2, 9}, {"c.ml", "B.inlined", 20, 4, 8}};
  return {{"a.ml", "A.main\x1b[31m", 1, 0, 5}};
}

std::vector<std::string> dump(int version) {
  testing::MemoryFile file;
  Writer writer(file.sink(), locations_of, testing::example_info(), {.version = version});
  const std::uint64_t start = testing::example_info().start_time_us;
  const std::vector<std::uint64_t> callstack = {1, 2, 3};
  const auto id = writer.alloc({.time_us = start + 1'234'567,
                                .domain = 7,
                                .length_words = 65,
                                .n_samples = 2,
                                .source = Source::kMajor,
                                .callstack = callstack});
  EXPECT_TRUE(id.ok());
  EXPECT_TRUE(writer.promote({.time_us = start + 2'000'000, .id = *id, .domain = 7}).ok());
  EXPECT_TRUE(writer.collect({.time_us = start + 3'000'001, .id = *id, .domain = 7}).ok());
  EXPECT_TRUE(writer
                  .alloc({.time_us = start + 3'000'002,
                          .domain = 7,
                          .length_words = 1,
                          .n_samples = 1,
                          .callstack = {}})
                  .ok());
  EXPECT_TRUE(writer.flush().ok());
  TempDir dir;
  std::vector<std::string> lines;
  const auto summary =
      dump_trace_file(dir.write("a.ctf", file.text()),
                      [&lines](std::string_view line) { lines.emplace_back(line); });
  EXPECT_TRUE(summary.ok() && summary->complete());
  return lines;
}

TEST(CtfDump, OneDomain) {
  EXPECT_EQ(dump(2), (std::vector<std::string>{
                         "# Memtrace v2, 0.001 samples per word, /srv/shop, pid 4242 on host1, "
                         "OCAMLRUNPARAM=s=4k, a test",
                         "+1.234567 alloc 0 major 2 samples 65 words: A.main?[31m@a.ml:1:0-5 "
                         "B.outer@b.ml:10:2-9 B.inlined@c.ml:20:4-8 0x3",
                         "+2.000000 promote 0", "+3.000001 collect 0",
                         "+3.000002 alloc 1 minor 1 sample 1 word: unknown"}));
}

TEST(CtfDump, ManyDomains) {
  const std::vector<std::string> lines = dump(3);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[1],
            "+1.234567 alloc 0 domain 7 major 2 samples 65 words: A.main?[31m@a.ml:1:0-5 "
            "B.outer@b.ml:10:2-9 B.inlined@c.ml:20:4-8 0x3");
  EXPECT_EQ(lines[2], "+2.000000 promote 0 domain 7");
}

TEST(CtfDump, NotAFile) {
  EXPECT_EQ(dump_trace_file("/nonexistent", [](std::string_view) {}).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace memprofd::ctf
