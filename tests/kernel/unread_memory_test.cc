// SPDX-License-Identifier: Apache-2.0
// The parts of a program's resident memory when reading ends early: no part has memory of another
// one.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "daemon/rss/rss_report.h"
#include "tests/kernel/child_process.h"

namespace memprofd {
namespace {

// Uses that are found by reading the program's memory.
constexpr RssClass kFound[] = {
    RssClass::kOcamlUsed,      RssClass::kOcamlFree,    RssClass::kMinorHeap,
    RssClass::kFiberStack,     RssClass::kRuntimeTable, RssClass::kMallocUsed,
    RssClass::kMallocMmapped,  RssClass::kMallocFree,   RssClass::kMallocCache,
    RssClass::kMallocUnwalked, RssClass::kOther};

class UnreadMemory : public ::testing::Test {
 protected:
  static RssReport report(int pid, RssOptions options) {
    auto report = account_rss(pid, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : RssReport();
  }

  // A whole report. On a busy machine its time may run out, and the kernel may still give the
  // program huge pages.
  static RssReport report_at_rest(int pid) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    RssReport before = report(pid, {});
    while (true) {
      RssReport now = report(pid, {});
      const bool rests = now.resident(RssClass::kNotRead) == 0 && now.counted == before.counted &&
                         now.resident(RssClass::kOcamlUsed) > 10U << 20;
      if (rests || std::chrono::steady_clock::now() > until) return now;
      before = std::move(now);
    }
  }

  // Reads the memory of the program, which rests, in ever more pieces until all of it is read.
  static void check(const std::string& path) {
    ChildProcess program({path, "60"});
    RssReport whole = report_at_rest(program.pid());
    EXPECT_EQ(whole.resident(RssClass::kNotRead), 0U);
    EXPECT_GT(whole.resident(RssClass::kOcamlUsed), 10U << 20);
    int incomplete = 0;
    for (std::uint64_t pieces = 0;; pieces += 1 + pieces / 3) {
      const RssReport part = report(program.pid(), {.max_pieces = pieces});
      ASSERT_EQ(part.counted, part.status.resident());
      // The kernel may back free memory by huge pages meanwhile.
      if (part.counted != whole.counted) whole = report_at_rest(program.pid());
      // A block of OCaml also owns the first word of a free chunk after it.
      const std::uint64_t words = whole.walked_chunks * sizeof(std::uint64_t);
      for (const RssClass kind : kFound) {
        const std::uint64_t more = kind == RssClass::kMallocFree ? words : 0;
        EXPECT_LE(part.resident(kind), whole.resident(kind) + more)
            << words_of(kind).key << " after " << pieces << " pieces";
      }
      if (HasFailure() || part.resident(RssClass::kNotRead) == 0) break;
      EXPECT_FALSE(part.notes.empty());
      ++incomplete;
    }
    EXPECT_GT(incomplete, 10);
  }
};

TEST_F(UnreadMemory, IsInNoOtherPartOfOcaml4) { check(target_path("fragmented")); }

TEST_F(UnreadMemory, IsInNoOtherPartOfOcaml5) { check(target5_path("fragmented")); }

}  // namespace
}  // namespace memprofd
