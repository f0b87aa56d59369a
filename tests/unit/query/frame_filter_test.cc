// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/frame_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bpf/events.h"
#include "tests/kit/fake_profile.h"

namespace memprofd {
namespace {

using testing::callstack_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TableSymbolizer;

class FrameFilterTest : public ::testing::Test {
 protected:
  FrameFilterTest() {
    symbolizer_.table = {{1, {{.function = "Cache.add", .file = "src/cache.ml", .line = 1}}},
                         {2, {{.function = "Stdlib__List.map", .file = "list.ml", .line = 92}}},
                         {3, {{.function = "Main.run", .file = "bin/main.ml", .line = 7}}},
                         {4,
                          {{.function = "Inlined.leaf", .file = "leaf.ml"},
                           {.function = "Outer.f", .file = "o.ml"}}}};
  }
  bool passes(const Filter& filter, std::vector<std::uint64_t> entries,
              const AllocClass& alloc_class = {}) {
    absl::StatusOr<FrameFilter> compiled = FrameFilter::compile(filter);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    return RowFilter(*compiled, symbolizer_).passes(alloc_class, *callstack_of(std::move(entries)));
  }
  bool passes(const Filter& filter, const AllocClass& alloc_class) {
    return passes(filter, {1, 2, 3}, alloc_class);
  }
  static std::string error(const Filter& filter) {
    const auto compiled = FrameFilter::compile(filter);
    EXPECT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(compiled.status().message()), Not(HasSubstr("\n")));
    return std::string(compiled.status().message());
  }

  TableSymbolizer symbolizer_;
};

TEST_F(FrameFilterTest, WhatCHasTakenIsForThoseWhoAskForIt) {
  const AllocClass of_c{.heap = Heap::kMajor, .source = Source::kMalloc};
  EXPECT_FALSE(passes({}, of_c));
  EXPECT_TRUE(passes({.heap = HeapKind::kC}, of_c));
  EXPECT_TRUE(passes({.source = Source::kMalloc}, of_c));
  EXPECT_FALSE(passes({.heap = HeapKind::kMajor}, of_c));
  EXPECT_FALSE(passes({.heap = HeapKind::kC}, AllocClass{}));
}

TEST_F(FrameFilterTest, AnEmptyFilterPassesAll) {
  EXPECT_TRUE(passes({}, {1, 2, 3}));
  EXPECT_TRUE(passes({}, std::vector<std::uint64_t>{}));
  EXPECT_TRUE(passes({.patterns = {""}, .require = {""}, .forbid = {""}, .hide = {""}}, {1}));
}

TEST_F(FrameFilterTest, PatternIsOfTheSite) {
  EXPECT_TRUE(passes({.patterns = {"^Cache\\."}}, {1, 2, 3}));
  EXPECT_TRUE(passes({.patterns = {"cache.ml$"}}, {1, 2, 3})) << "file";
  EXPECT_FALSE(passes({.patterns = {"Main"}}, {1, 2, 3})) << "a caller is no site";
  EXPECT_TRUE(passes({.patterns = {"Inlined"}}, {4}));
  EXPECT_FALSE(passes({.patterns = {"Outer"}}, {4})) << "what it is inlined into";
  EXPECT_TRUE(passes({.patterns = {"Cache", "add"}}, {1}));
  EXPECT_FALSE(passes({.patterns = {"Cache", "remove"}}, {1})) << "all of them";
}

TEST_F(FrameFilterTest, PatternsWithAColonFindLines) {
  EXPECT_TRUE(passes({.patterns = {"^src/cache\\.ml:1$"}}, {1, 2, 3}));
  EXPECT_FALSE(passes({.patterns = {"^src/cache\\.ml:2$"}}, {1, 2, 3}));
  EXPECT_TRUE(passes({.require = {"main.ml:7"}}, {1, 2, 3}));
  EXPECT_FALSE(passes({.patterns = {"^.*1$"}}, {1, 2, 3})) << "no colon, no line";
  EXPECT_FALSE(passes({.patterns = {"leaf.ml:0"}}, {4})) << "no line is known";
}

TEST_F(FrameFilterTest, RequireEachSomewhere) {
  EXPECT_TRUE(passes({.require = {"List"}}, {1, 2, 3}));
  EXPECT_TRUE(passes({.require = {"List", "bin/", "Cache"}}, {1, 2, 3}));
  EXPECT_FALSE(passes({.require = {"List", "Nowhere"}}, {1, 2, 3}));
  EXPECT_TRUE(passes({.require = {"Outer"}}, {4})) << "inlined frames count";
}

TEST_F(FrameFilterTest, ForbidAnywhere) {
  EXPECT_FALSE(passes({.forbid = {"Main"}}, {1, 2, 3}));
  EXPECT_FALSE(passes({.forbid = {"Nowhere", "list.ml"}}, {1, 2, 3}));
  EXPECT_TRUE(passes({.forbid = {"Nowhere"}}, {1, 2, 3}));
}

TEST_F(FrameFilterTest, HiddenFramesAreNotThere) {
  EXPECT_TRUE(passes({.patterns = {"List"}, .hide = {"Cache"}}, {1, 2, 3})) << "the site moves";
  EXPECT_FALSE(passes({.require = {"Cache"}, .hide = {"Cache"}}, {1, 2, 3}));
  EXPECT_TRUE(passes({.forbid = {"Cache"}, .hide = {"Cache"}}, {1, 2, 3}));
  EXPECT_TRUE(passes({.patterns = {"Outer"}, .hide = {"leaf"}}, {4}));
  EXPECT_TRUE(passes({.patterns = {"\\(hidden\\)"}, .hide = {"."}}, {1, 2, 3}));
  EXPECT_TRUE(passes({.patterns = {"\\(unknown\\)"}, .hide = {"."}}, std::vector<std::uint64_t>{}));
}

TEST_F(FrameFilterTest, HiddenMatchesFunctionAndFile) {
  EXPECT_EQ(FrameFilter::compile({})->hidden(), nullptr);
  const auto hidden = FrameFilter::compile({.hide = {"^Stdlib", "lwt\\.ml"}})->hidden();
  ASSERT_NE(hidden, nullptr);
  EXPECT_TRUE(hidden->matches({.function = "Stdlib__List.map"}));
  EXPECT_TRUE(hidden->matches({.function = "Lwt.bind", .file = "src/lwt.ml"}));
  EXPECT_FALSE(hidden->matches({.function = "My.Stdlib", .file = "a.ml"}));
}

TEST_F(FrameFilterTest, AFrameRepeatedByRecursionIsJudgedToo) {
  EXPECT_TRUE(passes({.require = {"List"}}, {1, 2, MEMPROF_RUN_MARK | 5, 3}));
  EXPECT_FALSE(passes({.forbid = {"Main"}}, {1, 2, MEMPROF_RUN_MARK | 5, 3}));
}

TEST_F(FrameFilterTest, SizesAreInclusiveAndWithoutHeader) {
  const auto of = [](std::uint64_t words) { return AllocClass{.size = SizeBucket::of(words)}; };
  EXPECT_TRUE(passes({.min_size_bytes = 24}, of(3)));
  EXPECT_FALSE(passes({.min_size_bytes = 25}, of(3)));
  EXPECT_TRUE(passes({.max_size_bytes = 24}, of(3)));
  EXPECT_FALSE(passes({.max_size_bytes = 23}, of(3)));
  EXPECT_TRUE(passes({.max_size_bytes = 0}, of(1 << 20))) << "0 is any";
  EXPECT_TRUE(passes({.min_size_bytes = 8, .max_size_bytes = 512}, of(64)));
  const SizeBucket large = SizeBucket::of(1000);  // the bucket's middle counts
  const auto middle = static_cast<std::uint64_t>(large.middle_words() * 8);
  EXPECT_TRUE(passes({.min_size_bytes = middle, .max_size_bytes = middle + 1}, of(1000)));
  EXPECT_FALSE(passes({.min_size_bytes = middle + 4}, of(large.largest_words())));
}

TEST_F(FrameFilterTest, HeapSourceThreadAndDomain) {
  const AllocClass major{
      .thread = 12, .domain = 3, .heap = Heap::kMajor, .source = Source::kMarshal};
  EXPECT_TRUE(passes({.heap = HeapKind::kMajor}, major));
  EXPECT_FALSE(passes({.heap = HeapKind::kMinor}, major));
  EXPECT_FALSE(passes({.heap = HeapKind::kExternal}, major));
  AllocClass external = major;
  external.source = Source::kCustom;  // whichever heap the runtime names with it
  EXPECT_TRUE(passes({.heap = HeapKind::kExternal}, external));
  EXPECT_FALSE(passes({.heap = HeapKind::kMajor}, external));
  EXPECT_TRUE(passes({.source = Source::kMarshal}, major));
  EXPECT_FALSE(passes({.source = Source::kNormal}, major));
  EXPECT_TRUE(passes({.threads = {11, 12}}, major));
  EXPECT_FALSE(passes({.threads = {11}}, major));
  EXPECT_TRUE(passes({.domains = {3, 4}}, major));
  EXPECT_FALSE(passes({.domains = {0}}, major));
}

TEST_F(FrameFilterTest, AllConditionsMustHold) {
  const AllocClass alloc_class{.thread = 12, .size = SizeBucket::of(10)};
  const Filter all{.patterns = {"List"},
                   .require = {"Main"},
                   .forbid = {"Cache"},
                   .hide = {"Cache"},
                   .min_size_bytes = 80,
                   .max_size_bytes = 80,
                   .heap = HeapKind::kMinor,
                   .source = Source::kNormal,
                   .threads = {12},
                   .domains = {0}};
  EXPECT_TRUE(passes(all, alloc_class));
  const auto without = [&](auto change) {
    Filter filter = all;
    change(filter);
    return passes(filter, alloc_class);
  };
  EXPECT_FALSE(without([](Filter& f) { f.patterns = {"Main"}; }));
  EXPECT_FALSE(without([](Filter& f) { f.require = {"Cache"}; }));
  EXPECT_FALSE(without([](Filter& f) { f.forbid = {"Main"}; }));
  EXPECT_FALSE(without([](Filter& f) { f.hide.clear(); }));
  EXPECT_FALSE(without([](Filter& f) { f.min_size_bytes = f.max_size_bytes = 88; }));
  EXPECT_FALSE(without([](Filter& f) { f.heap = HeapKind::kMajor; }));
  EXPECT_FALSE(without([](Filter& f) { f.source = Source::kCustom; }));
  EXPECT_FALSE(without([](Filter& f) { f.threads = {13}; }));
  EXPECT_FALSE(without([](Filter& f) { f.domains = {1}; }));
}

TEST_F(FrameFilterTest, EachAddressIsSymbolizedOnce) {
  RowFilter filter(FrameFilter::compile({.require = {"Main"}}).value(), symbolizer_);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(filter.passes({}, *callstack_of({1, 2, 3})));
  EXPECT_LE(symbolizer_.calls, 3);
}

TEST_F(FrameFilterTest, AsManyPatternsAsAllowed) {
  Filter filter;
  filter.require.assign(Patterns::kMaxPatterns, "Main");
  EXPECT_TRUE(passes(filter, {1, 2, 3}));
  filter.require.back() = "Nowhere";
  EXPECT_FALSE(passes(filter, {1, 2, 3}));
  filter.require.emplace_back("Main");
  EXPECT_THAT(error(filter), HasSubstr("too many require patterns: at most 64"));
}

TEST_F(FrameFilterTest, ErrorsNameThePatternAndTheReason) {
  EXPECT_THAT(error({.patterns = {"Cache["}}), HasSubstr("bad site pattern \"Cache[\": missing ]"));
  EXPECT_THAT(error({.require = {"a\n("}}), HasSubstr("bad require pattern \"a\\n(\": missing )"));
  EXPECT_THAT(error({.forbid = {"*"}}), HasSubstr("bad forbid pattern \"*\": "));
  EXPECT_THAT(error({.hide = {std::string(1001, 'a')}}), HasSubstr("hide pattern of 1001 bytes"));
  EXPECT_TRUE(FrameFilter::compile({.hide = {std::string(1000, 'a')}}).ok());
  EXPECT_THAT(error({.patterns = {"((((.{100}){100}){100}){100})"}}), HasSubstr("repetition"));
  EXPECT_THAT(error({.patterns = {"(\\pL{900}){1}(\\pL{900})(\\pL{900})"}}),
              HasSubstr("too large"));
}

TEST_F(FrameFilterTest, LimitsThatNoBlockIsWithinAreRefused) {
  EXPECT_THAT(error({.min_size_bytes = 9, .max_size_bytes = 8}), HasSubstr("bad sizes"));
  EXPECT_TRUE(FrameFilter::compile({.min_size_bytes = 8, .max_size_bytes = 8}).ok());
  EXPECT_THAT(error({.lifetime = {.min_seconds = 2, .max_seconds = 1}}),
              HasSubstr("bad lifetimes"));
  EXPECT_THAT(error({.lifetime = {.min_seconds = -1}}), HasSubstr("bad lifetime -1"));
  EXPECT_THAT(error({.lifetime = {.max_seconds = std::nan("")}}), HasSubstr("bad lifetime nan"));
}

}  // namespace
}  // namespace memprofd
