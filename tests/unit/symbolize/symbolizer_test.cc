// SPDX-License-Identifier: Apache-2.0
#include "daemon/symbolize/symbolizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <thread>

#include "daemon/symbolize/ocaml_symbolizer.h"
#include "daemon/symbolize/symbol_names.h"
#include "tests/kit/ocaml_program.h"

namespace memprofd {
namespace {

TEST(SymbolNames, NamesAsDebuginfoDoes) {
  const std::pair<const char*, const char*> cases[] = {
      {"camlFoo__bar_123", "Foo.bar"},
      {"camlFoo__bar_baz_2_123", "Foo.bar_baz_2"},
      {"camlDune__exe__Server__handle_12", "Dune__exe__Server.handle"},
      {"camlStdlib__List__map_215", "Stdlib__List.map"},
      {"camlFoo__fun_304", "Foo.(fun)"},
      {"camlFoo__$2b$21_7", "Foo.+!"},
      {"camlFoo__f$27_7", "Foo.f'"},
      {"camlFoo___hidden_9", "Foo._hidden"},
      {"camlFoo__entry", "Foo"},
      {"camlFoo__f", "Foo.f"},
      {"camlFoo__f$2", "Foo.f$2"},
      {"camlFoo__f$zz_1", "Foo.f$zz"},
      {"camlFoo.fun_304", "Foo.(fun)"},
      {"camlFoo._f__g_7", "Foo._f__g"},
      {"camlStdlib__Digest.file_12", "Stdlib__Digest.file"},
      {"camlFoo.entry", "Foo"},
      {"caml_alloc_shr", "caml_alloc_shr"},
      {"caml_apply2", "caml_apply2"},
      {"camlFoo", "camlFoo"},
      {"caml", "caml"},
      {"main", "main"},
      {"", ""}};
  for (const auto& [symbol, name] : cases) EXPECT_EQ(demangle(symbol), name) << symbol;
}

// Returns the requested address and index as the name. Address 900 is two inlined functions.
class EchoSymbolizer : public Symbolizer {
 public:
  std::vector<Location> look_up(std::uint64_t address, std::int32_t alloc_idx) override {
    ++asked;
    const std::string name = std::to_string(address) + ":" + std::to_string(alloc_idx);
    if (address == 900) return {{.function = name + "i"}, {.function = name + "o"}};
    return {{.function = name}};
  }
  int asked = 0;
};

TEST(SymbolizerTest, AsksOnceForEachAddressAndIndex) {
  EchoSymbolizer symbolizer;
  EXPECT_EQ(symbolizer.locations(10, 2), (std::vector<Location>{{.function = "10:2"}}));
  const FrameId frame = symbolizer.frame_id(900, -1);
  EXPECT_EQ(symbolizer.return_address(frame), 900u);
  const auto locations = symbolizer.locations(frame);
  ASSERT_EQ(locations.size(), 2u);
  EXPECT_EQ(symbolizer.location(locations[0]).function, "900:-1i");
  EXPECT_EQ(symbolizer.location(locations[1]).function, "900:-1o");
  EXPECT_EQ(symbolizer.asked, 2);
  EXPECT_EQ(symbolizer.frame_id(900, -1), frame);
  EXPECT_EQ(symbolizer.asked, 2);
  symbolizer.frame_id(10, -1);
  EXPECT_EQ(symbolizer.asked, 3);
}

TEST(SymbolizerTest, AsksAgainForCodeThatWasNotKnown) {
  class Learning : public Symbolizer {
   public:
    using Symbolizer::forget_unknown;
    std::string library;

   protected:
    std::vector<Location> look_up(std::uint64_t, std::int32_t) override {
      return {{.function = "f", .library = library}};
    }
  } symbolizer;
  const FrameId before = symbolizer.frame_id(0x10, -1);
  symbolizer.library = "plugin.cmxs";
  EXPECT_EQ(symbolizer.frame_id(0x10, -1), before);
  symbolizer.forget_unknown();
  const FrameId after = symbolizer.frame_id(0x10, -1);
  EXPECT_EQ(symbolizer.location(symbolizer.locations(after)[0]).library, "plugin.cmxs");
  symbolizer.forget_unknown();
  EXPECT_EQ(symbolizer.frame_id(0x10, -1), after);
}

TEST(SymbolizerTest, EqualLocationsHaveOneNumber) {
  class Same : public Symbolizer {
    std::vector<Location> look_up(std::uint64_t address, std::int32_t) override {
      return {{.function = "f", .line = static_cast<std::uint32_t>(address / 2)}};
    }
  } symbolizer;
  const auto of = [&](std::uint64_t address) {
    return symbolizer.locations(symbolizer.frame_id(address, -1))[0];
  };
  EXPECT_EQ(of(3), of(2));
  EXPECT_NE(of(4), of(2));
}

TEST(SymbolizerTest, FramesOfACallstack) {
  EchoSymbolizer symbolizer;
  std::vector<Symbolizer::FrameRun> scratch;
  for (const std::uint32_t id : {0, 5, 5}) {
    const Callstack callstack{
        .id = CallstackId(id), .entries = {10, MEMPROF_RUN_MARK | 2, 20}, .alloc_idx = 1};
    EXPECT_EQ(symbolizer.innermost(callstack), symbolizer.frame_id(10, 1));
    const auto runs = symbolizer.frames(callstack, scratch);
    ASSERT_EQ(runs.size(), 3u);
    EXPECT_EQ(runs[0].frame, symbolizer.frame_id(10, 1));
    EXPECT_EQ(runs[0].times, 1u);
    EXPECT_EQ(runs[1].frame, symbolizer.frame_id(10, -1));
    EXPECT_EQ(runs[1].times, 2u);
    EXPECT_EQ(runs[2].frame, symbolizer.frame_id(20, -1));
  }
  for (const Callstack& empty : {Callstack{}, Callstack{.id = CallstackId(7)}}) {
    EXPECT_EQ(symbolizer.innermost(empty), Symbolizer::kUnknownFrame);
    EXPECT_TRUE(symbolizer.frames(empty, scratch).empty());
  }
  EXPECT_EQ(symbolizer.innermost({.entries = {30}}), symbolizer.frame_id(30, -1))
      << "those of id 0 are not remembered";
}

TEST(SymbolizerTest, TextsAreValidUtf8) {
  class Broken : public Symbolizer {
    std::vector<Location> look_up(std::uint64_t, std::int32_t) override {
      return {{.function = "a\xff", .file = "\xfe", .library = "\xc3"}};
    }
  } symbolizer;
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(symbolizer.locations(1, -1)[0],
            (Location{.function = "a" + bad, .file = bad, .library = bad}));
}

TEST(SymbolizerTest, NamesForNamelessFrames) {
  EchoSymbolizer symbolizer;
  EXPECT_EQ(symbolizer.location(Symbolizer::kUnknown).function, "(unknown)");
  EXPECT_EQ(symbolizer.location(Symbolizer::kHidden).function, "(hidden)");
}

// A target may be hostile: the number of kept answers has a limit, and old ones stay.
TEST(SymbolizerTest, KeepsALimitedNumberOfAnswers) {
  class Seven : public EchoSymbolizer {
    std::vector<Location> look_up(std::uint64_t address, std::int32_t) override {
      ++asked;
      return {{.function = std::string(1, static_cast<char>('a' + address % 1000))}};
    }
  } symbolizer;
  for (std::uint32_t i = 0; i < Symbolizer::kMaxFrames; ++i) {
    symbolizer.frame_id(1000 + i % 7, static_cast<std::int32_t>(i / 7));
  }
  const int asked = symbolizer.asked;
  EXPECT_EQ(symbolizer.frame_id(999, -1), Symbolizer::kUnknownFrame);
  EXPECT_EQ(symbolizer.asked, asked);
  EXPECT_EQ(symbolizer.locations(1003, 0)[0].function, "d");
}

// Debug information made to be large: 256 inlined functions, all names of their own.
class BombSymbolizer : public Symbolizer {
 public:
  using Symbolizer::Symbolizer;
  int asked = 0;

 protected:
  std::vector<Location> look_up(std::uint64_t address, std::int32_t) override {
    ++asked;
    std::vector<Location> found;
    for (int i = 0; i < 256; ++i) {
      const std::string name = std::to_string(address) + "." + std::to_string(i);
      found.push_back({.function = name + std::string(4000, 'f'),
                       .file = name + std::string(4000, '/'),
                       .library = "bomb.exe"});
    }
    return found;
  }
};

TEST(SymbolizerTest, NamesTakeWhatTheBudgetHas) {
  constexpr std::uint64_t kLimit = 8 << 20;
  const auto budget = std::make_shared<ByteBudget>(kLimit);
  {
    BombSymbolizer symbolizer(budget);
    constexpr std::uint64_t kFrames = 2000;
    for (std::uint64_t address = 0x1000; address < 0x1000 + kFrames; ++address) {
      symbolizer.frame_id(address, -1);
    }
    EXPECT_EQ(symbolizer.locations(0x1000, -1).size(), 256u);
    const auto bare = symbolizer.locations(0x1000 + kFrames - 1, -1);
    EXPECT_EQ(bare, (std::vector<Location>{{.function = "0x17cf"}}));
    EXPECT_GT(symbolizer.frames_without_room(), kFrames - 10);
    EXPECT_LT(symbolizer.frames_without_room(), kFrames);
    EXPECT_LE(budget->peak(), kLimit);
    EXPECT_LT(symbolizer.asked, 10) << "what would not be kept is not looked up";
  }
  EXPECT_EQ(budget->used(), 0u);
}

TEST(SymbolizerTest, WithoutRoomForAddressesFramesAreUnknown) {
  const auto budget = std::make_shared<ByteBudget>(100'000);
  BombSymbolizer symbolizer(budget);
  for (std::uint64_t address = 0; address < 10'000; ++address) symbolizer.frame_id(address, -1);
  EXPECT_EQ(symbolizer.frames_without_room(), 10'000u);
  EXPECT_EQ(symbolizer.frame_id(20'000, -1), Symbolizer::kUnknownFrame);
  EXPECT_LE(budget->peak(), 100'000u);
  EXPECT_EQ(symbolizer.asked, 1);
  // Answers are complete even if they do not fit into memory.
  std::vector<Symbolizer::FrameRun> scratch;
  const Callstack callstack{.id = CallstackId(5), .entries = std::vector<std::uint64_t>(9000, 1)};
  EXPECT_EQ(symbolizer.frames(callstack, scratch).size(), 9000u);
}

constexpr char kSource[] = R"(
let[@inline never] leaf n = if n < 0 then failwith "x" else Array.make n 'a'
let[@inline] wrap n = leaf (n + 1)
let[@inline never] outer n =
  let a = wrap n in
  ignore (Sys.opaque_identity (n, a));
  n
let () = ignore (Sys.opaque_identity (outer (int_of_string Sys.argv.(1))))
)";

// A program at a fixed address. The return addresses in its file need no relocation, so its frame
// table can be read from the file alone.
class FileSymbolizer : public testing::Test {
 protected:
  void build(const std::string& options) {
    path_ = compile_ocaml(dir_, "m", kSource, options + " -ccopt -no-pie");
    ASSERT_FALSE(path_.empty());
    auto file = ElfFile::open(path_, path_);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto symbol = (*file)->find_symbol("caml_frametable");
    ASSERT_TRUE(symbol.has_value());
    ASSERT_GE(symbol->address, 0x400000u) << "where programs are that cannot be moved";
    auto frames = read_frame_table(FileMemory(**file, 0), {}, symbol->address);
    ASSERT_TRUE(frames.ok()) << frames.status();
    EXPECT_EQ(frames->skipped, 0u);
    frames_ = *std::move(frames);
    outer_ = (*file)->find_symbol("camlM__outer_" + stamp_of(**file)).value_or(ElfSymbol());
    symbolizer_ =
        std::make_unique<OcamlSymbolizer>(*std::move(file), 0, frames_, LocationFormat::kLine);
  }
  // The compiler numbers functions; find outer's number.
  static std::string stamp_of(const ElfFile& file) {
    for (int stamp = 0; stamp < 2000; ++stamp) {
      if (file.find_symbol("camlM__outer_" + std::to_string(stamp))) return std::to_string(stamp);
    }
    return "";
  }
  // Return addresses inside function outer.
  std::vector<FrameDescriptor> descriptors_in_outer() const {
    std::vector<FrameDescriptor> all;
    for (const FrameDescriptor& d : frames_.descriptors()) {
      if (d.return_address - outer_.address <= outer_.size) all.push_back(d);
    }
    return all;
  }
  TempDir dir_;
  std::string path_;
  FrameTable frames_;
  ElfSymbol outer_;
  std::unique_ptr<OcamlSymbolizer> symbolizer_;
};

TEST_F(FileSymbolizer, LocatesAnInlinedCall) {
  build("-g -inline 100");
  std::filesystem::remove(path_);  // answers come from the open file
  bool found = false;
  for (const FrameDescriptor& d : descriptors_in_outer()) {
    const auto locations = symbolizer_->locations(d.return_address, -1);
    if (locations[0].function != "M.wrap") continue;
    found = true;
    ASSERT_EQ(locations.size(), 2u);
    EXPECT_EQ(locations[0], (Location{.function = "M.wrap",
                                      .file = "m.ml",
                                      .line = 3,
                                      .start_column = 22,
                                      .end_column = 34,
                                      .library = "m.exe"}));
    EXPECT_EQ(locations[1].function, "M.outer");
    EXPECT_EQ(locations[1].line, 5u);
    EXPECT_EQ(locations[1].start_column, 10u);
    EXPECT_EQ(locations[1].end_column, 16u);
  }
  EXPECT_TRUE(found);
}

// Runtime capture reports allocations this way.
TEST_F(FileSymbolizer, LocatesADebuginfo) {
  build("-g");
  const auto file = ElfFile::open(path_, path_);
  ASSERT_TRUE(file.ok()) << file.status();
  const FileMemory memory(**file, 0);
  int seen = 0;
  for (const FrameDescriptor& d : descriptors_in_outer()) {
    const auto debuginfo = find_debuginfo(memory, d.address, 0);
    if (!debuginfo) continue;
    ++seen;
    EXPECT_EQ(symbolizer_->locations(*debuginfo, kDebuginfoIsInnermost),
              symbolizer_->locations(d.return_address, 0));
  }
  EXPECT_GT(seen, 0);
  EXPECT_EQ(symbolizer_->locations(0x7fffdeadbeef, kDebuginfoIsInnermost)[0].function,
            "0x7fffdeadbeef");
}

// Without -g calls still have debuginfo, but allocations have none.
TEST_F(FileSymbolizer, WithoutDebuginfoFallsBackToTheSymbol) {
  build("");
  int seen = 0;
  for (const FrameDescriptor& d : descriptors_in_outer()) {
    if ((d.frame_size & 1) != 0) continue;
    ++seen;
    const auto locations = symbolizer_->locations(d.return_address, 0);
    ASSERT_EQ(locations.size(), 1u);
    EXPECT_EQ(locations[0], (Location{.function = "M.outer", .library = "m.exe"}));
  }
  EXPECT_GT(seen, 0);
}

TEST_F(FileSymbolizer, UnknownAddressIsHex) {
  build("-g");
  const auto locations = symbolizer_->locations(0x7fffdeadbeef, 0);
  ASSERT_EQ(locations.size(), 1u);
  EXPECT_EQ(locations[0], Location{.function = "0x7fffdeadbeef"});
  EXPECT_EQ(symbolizer_->locations(0, -1)[0].function, "0x0");
}

// Several threads get the first answers again, with many new look-ups between.
TEST_F(FileSymbolizer, ThreadsChangeNoAnswer) {
  build("-g");
  std::map<std::uint64_t, std::vector<Location>> expected;
  for (const FrameDescriptor& d : frames_.descriptors()) {
    if (expected.size() < 200)
      expected[d.return_address] = symbolizer_->locations(d.return_address, -1);
  }
  std::atomic<int> wrong = 0;
  const auto ask = [&](std::uint64_t salt) {
    for (std::uint64_t i = 0; i < 16384; ++i) {
      symbolizer_->locations(0x7000'0000'0000 + salt + 2 * i, -1);
      if (i % 256 != 0) continue;
      for (const auto& [address, locations] : expected) {
        wrong += symbolizer_->locations(address, -1) == locations ? 0 : 1;
      }
    }
  };
  std::thread other(ask, 1);
  ask(0);
  other.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace memprofd
