// SPDX-License-Identifier: Apache-2.0
#include "daemon/runtime/releases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "daemon/attach/kernel/capture_mode.h"
#include "daemon/attach/native_heap_by_probes.h"
#include "daemon/calls/call_trace.h"
#include "daemon/discover/elf_file.h"
#include "daemon/heapdump/heap_taker.h"
#include "daemon/runtime/runtime_abi.h"
#include "daemon/snapshot/types/compiler_file.h"
#include "daemon/values/heap_clock.h"

namespace memprofd {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

// The newest series, as if it had been added to the table without tests.
RuntimeAbi made_up() {
  RuntimeAbi abi = runtime_abi_for(std::string(releases().back().series)).value();
  abi.version = "5.99.0";
  abi.tested = {};
  return abi;
}

Target made_up_target() {
  Target target;
  target.pid = 1;
  target.abi = made_up();
  return target;
}

void expect_refusal(const absl::Status& status, const std::string& what) {
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              StartsWith(what + " of OCaml 5.99.0 are not supported yet, only those of 4.11 to "));
}

TEST(Releases, AreInOrderAndDifferInTheirFiles) {
  std::set<int> formats;
  for (const Release& release : releases()) {
    EXPECT_EQ(series_of(std::string(release.series) + ".0"), release.series);
    EXPECT_TRUE(formats.insert(release.facts.typed_tree.format).second) << release.series;
    EXPECT_EQ(*formats.rbegin(), release.facts.typed_tree.format) << release.series;
    EXPECT_EQ(release.facts.domains, release.series >= "5.0");
  }
}

TEST(Releases, ARowThatEnablesMoreThanItKnowsIsIncomplete) {
  Release row{.series = "5.99", .first_symbol = "", .tested = {}, .facts = {.domains = true}};
  EXPECT_TRUE(is_complete(row)) << "it enables nothing";
  for (const Capability one : {Capability::kAttach, Capability::kSnapshots, Capability::kTypes,
                               Capability::kObserve, Capability::kCallTimes, Capability::kRss}) {
    row.tested = {one};
    EXPECT_FALSE(is_complete(row)) << static_cast<int>(one);
  }
  row = releases().back();
  row.tested = {Capability::kAttach, Capability::kDomains, Capability::kCallTimes};
  EXPECT_TRUE(is_complete(row));
  row.facts.allocated_words = 0;
  EXPECT_FALSE(is_complete(row));
}

TEST(Releases, EachCapabilityRefusesANewSeries) {
  const RuntimeAbi abi = made_up();
  for (int i = 0; i < kCapabilities; ++i) {
    const absl::Status status = check_capability(abi, static_cast<Capability>(i));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(
        std::string(status.message()),
        MatchesRegex("[a-z ]+ of OCaml 5.99.0 are not supported yet, only those of [45].*"));
    EXPECT_TRUE(
        check_capability(runtime_abi_for("5.3.0").value(), static_cast<Capability>(i)).ok());
  }
}

// Each capability's code checks this before it does anything.
TEST(Releases, CapturesAreRefusedAndTheRuntimeCaptures) {
  const RuntimeAbi abi = made_up();
  expect_refusal(capture_for(abi, CaptureMode::kKernel).status(),
                 "callstacks captured by the kernel");
  expect_refusal(capture_for(abi, CaptureMode::kAgent).status(),
                 "callstacks captured by the agent");
  EXPECT_EQ(*capture_for(abi, CaptureMode::kAuto), CaptureMode::kRuntime);
  EXPECT_EQ(*capture_for(abi, CaptureMode::kRuntime), CaptureMode::kRuntime);
  EXPECT_EQ(*capture_for(runtime_abi_for("5.3.0").value(), CaptureMode::kAuto), CaptureMode::kAuto);
}

TEST(Releases, CallsAreRefused) {
  expect_refusal(CallTrace::start(made_up_target(), {.pattern = "f"}).status(), "counts of calls");
  Target target = made_up_target();
  target.abi.tested = {Capability::kCalls};
  const absl::Status status =
      CallTrace::start(std::move(target), {.pattern = "f", .with_time = true}).status();
  expect_refusal(status, "times of calls");
  EXPECT_THAT(std::string(status.message()), HasSubstr("count the calls, without --time"));
}

TEST(Releases, ValuesAreRefused) {
  const auto program = ElfFile::open("/proc/self/exe", "test");
  ASSERT_TRUE(program.ok()) << program.status();
  expect_refusal(HeapClock::find(**program, made_up(), {}).status(), "values of modules");
}

TEST(Releases, HeapSnapshotsAreRefused) {
  const Target target = made_up_target();
  std::atomic<double> paused{0};
  const auto lease =
      std::make_shared<CopyLease>(target, nullptr, SharedFd(), 0, LibcFunctions(), paused, paused);
  expect_refusal(take_heap({.lease = lease}, {}, {}).status(), "heap snapshots");
}

TEST(Releases, TheNativeHeapIsRefused) {
  const Target target = made_up_target();
  const NativeHeapByProbes native_heap(target, {.native_heap_interval = 1 << 20});
  EXPECT_THAT(native_heap.why_not(),
              StartsWith("native heaps of OCaml 5.99.0 are not supported yet"));
}

TEST(Releases, TypesAreRefused) {
  EXPECT_EQ(compiler_format_of("5.99.0"), 0);
  EXPECT_EQ(typed_tree_of(releases().back().facts.typed_tree.format + 1), nullptr);
  const auto file = CompilerFile::parse("Caml1999T099");
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("compiler (magic number 99)"));
}

}  // namespace
}  // namespace memprofd
