// SPDX-License-Identifier: Apache-2.0
// The table "OCaml versions" of docs/compatibility.md matches the table of releases and names the
// tests of each version.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "daemon/runtime/runtime_abi.h"

namespace memprofd {
namespace {

constexpr const char* kSeries[] = {"4.10", "4.11", "4.12", "4.13", "4.14", "5.0",
                                   "5.1",  "5.2",  "5.3",  "5.4",  "5.5",  "5.6"};
constexpr char kDocument[] = "docs/compatibility.md";
constexpr char kHead[] =
    "| OCaml | agent: attach, rate change, detach | exact callstacks | promotions, lifetimes "
    "| domains | observe mode | tested by |\n|---|---|---|---|---|---|---|\n";

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path << " (run from the top folder)";
  return {std::istreambuf_iterator<char>(file), {}};
}

// The programs of one version are in one folder; those of make test are the default ones.
std::string tested_by(const std::string& series) {
  const std::string matrix = text_of("tests/matrix.py");
  if (matrix.find("\"" + series + "\": \"targets") == std::string::npos) return "nothing";
  const bool always = matrix.find("\"" + series + "\": \"targets\"") != std::string::npos ||
                      matrix.find("\"" + series + "\": \"targets-trixie\"") != std::string::npos;
  if (matrix.find("\"" + series + "\": \"targets-experimental\"") != std::string::npos)
    return "`make test` in short, `make test-matrix`";
  return always ? "`make test`, `make test-matrix`" : "`make test-matrix`";
}

// A real program of that version.
std::string observed_by(const std::string& series) {
  const std::string programs = text_of("tests/e2e/test_real_programs.py");
  return programs.find("\"OCaml " + series) == std::string::npos
             ? "nothing; the layout is checked at each attach"
             : "`make test-matrix`";
}

std::string row(const std::string& series) {
  const auto abi = runtime_abi_for(series + ".0");
  if (!abi.ok()) return "| " + series + " | no | | | | no | |\n";
  const auto can = [&abi](Capability what) { return abi->tested.has(what) ? "yes" : "no"; };
  if (!abi->has_memprof) {
    return "| " + series + " | no: Gc.Memprof does not work there | | | | allocations only | " +
           observed_by(series) + " |\n";
  }
  if (!abi->tested.has(Capability::kAttach) && !abi->tested.has(Capability::kObserve))
    return "| " + series + " | no | | | | no | |\n";
  const std::string agent = can(Capability::kAttach);
  const std::string domains = abi->tested.has(Capability::kDomains) ? "all" : "";
  return "| " + series + " | " + agent + " | " + can(Capability::kCapture) + " | " + agent + " | " +
         domains + " | " + can(Capability::kObserve) + " | " + tested_by(series) + " |\n";
}

TEST(SupportTable, IsWhatMemprofdDoes) {
  std::string table = kHead;
  for (const char* series : kSeries) table += row(series);
  EXPECT_NE(text_of(kDocument).find(table), std::string::npos)
      << kDocument << " should have this table:\n"
      << table;
}

TEST(SupportTable, EveryVersionIsTested) {
  for (const char* series : kSeries) {
    const auto abi = runtime_abi_for(std::string(series) + ".0");
    if (!abi.ok() || !abi->tested.has(Capability::kAttach)) continue;
    EXPECT_NE(tested_by(series), "nothing") << series;
  }
}

}  // namespace
}  // namespace memprofd
