// SPDX-License-Identifier: Apache-2.0
// The walk over stacks of OCaml 5.
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "tests/bpf/synthetic_stack.h"

// What the walk asks of its surroundings.
static std::map<std::uint64_t, std::uint64_t> memory;  // words by address
static std::vector<std::uint64_t> table;
static std::uint32_t table_bits = 1;
static std::uint32_t max_frames = 1;
static std::uint32_t entry_room = MEMPROF_MAX_STACK_ENTRIES;
static bool fiber_stacks = true;

static long memprof_walk_read(void* to, __u32 bytes, __u64 address) {
  std::memset(to, 0, bytes);  // as the kernel does
  for (__u32 at = 0; at < bytes; at += 8) {
    const auto word = memory.find(address + at);
    if (word == memory.end()) return -14;
    std::memcpy(static_cast<char*>(to) + at, &word->second, 8);
  }
  return 0;
}

static const __u64* memprof_walk_slot(__u32 index) {
  return index < table.size() ? reinterpret_cast<const __u64*>(&table[index]) : nullptr;
}

#include "bpf/frametable_walk.bpf.h"

namespace memprofd {
namespace {

using Addresses = std::vector<std::uint64_t>;

// Chunks of one fiber, innermost first.
using Fiber = std::vector<SyntheticChunk>;

constexpr std::uint64_t kInfo = 0x10000, kStacks = 0x7f0000000000, kFiberBytes = 1 << 20;
constexpr std::uint64_t kBottomBytes = 32;  // what lies between two chunks of a fiber

class FiberWalkTest : public ::testing::Test {
 protected:
  ~FiberWalkTest() override { memory.clear(); }

  static std::uint64_t info_of(std::size_t fiber) { return kInfo + fiber * 0x100; }
  static std::uint64_t handler_of(std::size_t fiber) {
    return kStacks + (fiber + 1) * kFiberBytes - 64;
  }

  // A stack_info {sp, exception pointer, handler} for each fiber, its stack below the
  // handler, and the handler's parent.
  static void lay_out(const std::vector<Fiber>& fibers) {
    memory.clear();
    for (std::size_t i = 0; i < fibers.size(); ++i) {
      std::uint64_t bytes = 0;
      for (const SyntheticChunk& chunk : fibers[i]) bytes += bytes_of(chunk);
      std::uint64_t sp = handler_of(i) - bytes;
      memory[info_of(i)] = sp;
      memory[info_of(i) + 8] = sp + 40;
      memory[info_of(i) + 16] = handler_of(i);
      for (const SyntheticChunk& chunk : fibers[i]) sp = push(chunk, sp);
      memory[handler_of(i) + 24] = i + 1 < fibers.size() ? info_of(i + 1) : 0;
    }
  }
  // The return address in front, the frames, the bottom.
  static std::uint64_t bytes_of(const SyntheticChunk& chunk) {
    std::uint64_t bytes = 8 + kBottomBytes;
    for (const SyntheticFrame& frame : chunk) bytes += frame.size & 0xFFFCu;
    return bytes;
  }
  static std::uint64_t push(const SyntheticChunk& chunk, std::uint64_t sp) {
    for (const std::uint64_t end = sp + bytes_of(chunk); sp < end; sp += 8) {
      memory[sp] = 0x7ffe'dead'beef'0000;
    }
    sp -= bytes_of(chunk);
    for (const SyntheticFrame& frame : chunk) {
      memory[sp] = frame.pc;
      sp += frame.size & 0xFFFCu;
    }
    memory[sp] = SyntheticProgram::kStub;
    return sp + 8 + kBottomBytes;
  }

  Addresses walk(const SyntheticProgram& program, std::uint32_t frame_cap = 100'000) {
    table_bits = 14;
    table = program.slots(table_bits);
    max_frames = frame_cap;
    EXPECT_EQ(memprof_walk_stack(scratch_.get(), info_of(0), 0), 0);
    std::memcpy(&capture_, scratch_->event, sizeof capture_);
    const __u64* entries = scratch_->event + MEMPROF_CAPTURE_WORDS;
    const Addresses coded(entries, entries + capture_.n_entries);
    const Addresses frames = expand_entries(coded.data(), coded.size());
    EXPECT_EQ(frames.size(), capture_.n_frames);
    return frames;
  }
  static SyntheticProgram program_of(const std::vector<Fiber>& fibers) {
    SyntheticProgram program;
    for (const Fiber& fiber : fibers) program.add(fiber);
    return program;
  }
  static Addresses frames_of(const std::vector<Fiber>& fibers) {
    Addresses all;
    for (const Fiber& fiber : fibers) {
      for (const SyntheticChunk& chunk : fiber) {
        for (const SyntheticFrame& frame : chunk) all.push_back(frame.pc);
      }
    }
    return all;
  }

  std::unique_ptr<memprof_scratch> scratch_ = std::make_unique<memprof_scratch>();
  memprof_capture capture_{};
};

const std::vector<Fiber> kThreeFibers = {
    {{{0x401000, 16}, {0x402000, 32}}, {{0x403000, 8}}},
    {{{0x404000, 616}}},
    {{{0x405000, 17}}, {{0x401000, 16}, {0x401000, 16}}, {{0x406000, 24}}}};

TEST_F(FiberWalkTest, OneFiberOneChunk) {
  const std::vector<Fiber> fibers{{{{0x401000, 33}, {0x402000, 16}}}};
  lay_out(fibers);
  EXPECT_EQ(walk(program_of(fibers)), (Addresses{0x401000, 0x402000}));
  EXPECT_EQ(capture_.flags, 0u);
}

TEST_F(FiberWalkTest, ContinuesThroughCAndParents) {
  lay_out(kThreeFibers);
  EXPECT_EQ(walk(program_of(kThreeFibers)), frames_of(kThreeFibers));
  EXPECT_EQ(capture_.flags, 0u);
}

TEST_F(FiberWalkTest, AFiberThatHasJustBegunHasNoFrames) {
  const std::vector<Fiber> fibers{{{}}, {{{0x401000, 16}}}};
  lay_out(fibers);
  EXPECT_EQ(walk(program_of(fibers)), (Addresses{0x401000}));
  EXPECT_EQ(capture_.flags, 0u);
}

TEST_F(FiberWalkTest, RandomFibers) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100; ++i) {
    const auto functions = random_functions(random, 60);
    std::vector<Fiber> fibers;
    for (auto n = 1 + random() % 5; n > 0; --n) {
      fibers.push_back(random_chunks(random, functions, static_cast<int>(random() % 150)));
    }
    lay_out(fibers);
    ASSERT_EQ(walk(program_of(fibers)), frames_of(fibers)) << i;
    ASSERT_EQ(capture_.flags, 0u) << i;
  }
}

TEST_F(FiberWalkTest, CapIsExact) {
  lay_out(kThreeFibers);
  const Addresses all = frames_of(kThreeFibers);
  for (std::uint32_t cap = 1; cap < all.size(); ++cap) {
    EXPECT_EQ(walk(program_of(kThreeFibers), cap), Addresses(all.begin(), all.begin() + cap));
    EXPECT_EQ(capture_.flags, MEMPROF_CAPTURE_TRUNCATED) << cap;
  }
}

TEST_F(FiberWalkTest, UnreadableMemoryKeepsTheFramesSoFar) {
  const Addresses all = frames_of(kThreeFibers);
  const SyntheticProgram program = program_of(kThreeFibers);
  lay_out(kThreeFibers);
  const auto whole = memory;
  for (const auto& [address, word] : whole) {
    if (address < info_of(0) + 24 || address == whole.at(info_of(0))) continue;  // the next test
    memory = whole;
    memory.erase(address);
    const Addresses frames = walk(program);
    ASSERT_LE(frames.size(), all.size());
    ASSERT_TRUE(std::equal(frames.begin(), frames.end(), all.begin())) << std::hex << address;
    if (frames.size() < all.size()) {
      ASSERT_EQ(capture_.flags, MEMPROF_CAPTURE_BROKEN) << std::hex << address;
    }
  }
}

TEST_F(FiberWalkTest, UnreadableTopIsAnError) {
  lay_out(kThreeFibers);
  const auto whole = memory;
  for (const std::uint64_t address : {info_of(0), info_of(0) + 16, whole.at(info_of(0))}) {
    memory = whole;
    memory.erase(address);
    EXPECT_EQ(memprof_walk_stack(scratch_.get(), info_of(0), 0), -1);
  }
  EXPECT_EQ(memprof_walk_stack(scratch_.get(), 0, 0), -1);
}

TEST_F(FiberWalkTest, ACycleOfParentsEndsAtTheCap) {
  lay_out(kThreeFibers);
  memory[handler_of(2) + 24] = info_of(0);
  EXPECT_EQ(walk(program_of(kThreeFibers), 1000).size(), 1000u);
  EXPECT_EQ(capture_.flags, MEMPROF_CAPTURE_TRUNCATED);
  // A ring of empty fibers ends the walk as well.
  lay_out({{{}}});
  memory[handler_of(0) + 24] = info_of(0);
  EXPECT_EQ(walk(SyntheticProgram(), 1000).size(), 0u);
  EXPECT_EQ(capture_.flags, MEMPROF_CAPTURE_TRUNCATED);
}

// Any words may be changed: the walk ends within its cap.
TEST_F(FiberWalkTest, HostileStacksEnd) {
  std::mt19937_64 random(99);
  const SyntheticProgram program = program_of(kThreeFibers);
  lay_out(kThreeFibers);
  const auto whole = memory;
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> words(whole.begin(), whole.end());
  for (int i = 0; i < 2000; ++i) {
    memory = whole;
    for (int hits = 0; hits < 3; ++hits) {
      const auto& [from, word] = words[random() % words.size()];
      memory[words[random() % words.size()].first] = random() % 2 == 0 ? from : word;
    }
    table_bits = 14;
    table = program.slots(table_bits);
    max_frames = 300;
    if (memprof_walk_stack(scratch_.get(), info_of(0), 0) != 0) continue;
    std::memcpy(&capture_, scratch_->event, sizeof capture_);
    ASSERT_LE(capture_.n_frames, 300u);
  }
}

}  // namespace
}  // namespace memprofd
