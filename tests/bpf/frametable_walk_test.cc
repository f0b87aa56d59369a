// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "tests/bpf/synthetic_stack.h"

// What the walk asks of its surroundings; a test points it at its own stack.
static const memprofd::SyntheticStack* walked_stack = nullptr;
static std::uint64_t state_words[2];
static constexpr std::uint64_t kStateAddress = 0x1000;
static std::vector<std::uint64_t> table;
static std::uint32_t table_bits = 1;
static std::uint32_t max_frames = 1;
static std::uint32_t entry_room = MEMPROF_MAX_STACK_ENTRIES;
static bool fiber_stacks = false;
static int chunk_reads = 0;

static long memprof_walk_read(void* to, __u32 bytes, __u64 address) {
  if (address == kStateAddress && bytes == sizeof(state_words)) {
    std::memcpy(to, state_words, sizeof(state_words));
    return 0;
  }
  if (bytes > 16) ++chunk_reads;
  if (walked_stack != nullptr && walked_stack->read(to, bytes, address)) return 0;
  std::memset(to, 0, bytes);  // as the kernel does
  return -14;
}

static const __u64* memprof_walk_slot(__u32 index) {
  static_assert(sizeof(__u64) == sizeof(std::uint64_t));
  return index < table.size() ? reinterpret_cast<const __u64*>(&table[index]) : nullptr;
}

#include "bpf/frametable_walk.bpf.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kBase = 0x7ffd00000000;

struct Result {
  std::vector<std::uint64_t> entries;
  std::vector<std::uint64_t> frames;  // entries expanded
  memprof_capture capture;            // without its entries
};

class FrametableWalkTest : public testing::Test {
 protected:
  ~FrametableWalkTest() override { walked_stack = nullptr; }

  Result walk(const SyntheticProgram& program, const SyntheticStack& stack,
              std::uint32_t frame_cap = 100000, std::int32_t alloc_idx = 0) {
    table_bits = 14;
    table = program.slots(table_bits);
    EXPECT_FALSE(table.empty());
    max_frames = frame_cap;
    walked_stack = &stack;
    state_words[0] = stack.sp();
    state_words[1] = stack.pc();
    chunk_reads = 0;
    EXPECT_EQ(memprof_walk_stack(scratch_.get(), kStateAddress, alloc_idx), 0);
    return result(alloc_idx);
  }

  // What holds for every walk, however it ended.
  Result result(std::int32_t alloc_idx) {
    Result r;
    std::memcpy(&r.capture, scratch_->event, sizeof(r.capture));
    EXPECT_LE(r.capture.n_entries, MEMPROF_MAX_STACK_ENTRIES);
    const __u64* entries = scratch_->event + MEMPROF_CAPTURE_WORDS;
    r.entries.assign(entries, entries + r.capture.n_entries);
    r.frames = expand_entries(r.entries.data(), r.entries.size());
    EXPECT_EQ(r.frames.size(), r.capture.n_frames);
    EXPECT_NE(r.capture.stack_id, 0u);
    EXPECT_EQ(r.capture.alloc_idx, alloc_idx);
    return r;
  }

  void expect_like_reference(const std::vector<SyntheticChunk>& chunks,
                             std::uint32_t frame_cap = 100000) {
    SyntheticProgram program;
    program.add(chunks);
    const SyntheticStack stack(chunks, kBase);
    const Result r = walk(program, stack, frame_cap);
    const ReferenceWalk reference = reference_walk(program, stack, frame_cap);
    EXPECT_EQ(r.frames, reference.frames);
    EXPECT_EQ(r.capture.flags, reference.flags);
  }

  std::unique_ptr<memprof_scratch> scratch_ = std::make_unique<memprof_scratch>();
};

// n different frames of one size.
SyntheticChunk distinct(int n, std::uint16_t size = 16) {
  SyntheticChunk chunk;
  for (int i = 0; i < n; ++i)
    chunk.push_back({0x555555000000 + static_cast<std::uint64_t>(i) * 8, size});
  return chunk;
}

TEST_F(FrametableWalkTest, ShallowStack) {
  const SyntheticStack stack({{{0x401000, 33}, {0x402000, 16}}}, kBase);
  SyntheticProgram program;
  program.add({{{0x401000, 33}, {0x402000, 16}}});
  const Result r = walk(program, stack);
  EXPECT_EQ(r.entries, (std::vector<std::uint64_t>{0x401000, 0x402000}));
  EXPECT_EQ(r.capture.flags, 0u);
  EXPECT_EQ(r.capture.n_frames, 2u);
}

TEST_F(FrametableWalkTest, ThreadThatNeverEnteredOCaml) {
  const SyntheticStack stack({}, kBase);
  const Result r = walk(SyntheticProgram(), stack);
  EXPECT_EQ(r.capture.n_frames, 0u);
  EXPECT_EQ(r.capture.flags, 0u);
}

TEST_F(FrametableWalkTest, UnreadableDomainStateIsAnError) {
  EXPECT_EQ(memprof_walk_stack(scratch_.get(), kStateAddress + 8, 0), -1);
}

TEST_F(FrametableWalkTest, DeepStackReadsInChunks) {
  expect_like_reference({distinct(4000, 32)});
  // 16 frames of 32 bytes a read.
  EXPECT_LE(chunk_reads, 4000 / 16 + 2);
  EXPECT_GE(chunk_reads, 4000 / 16);
}

TEST_F(FrametableWalkTest, RecursionIsOneRun) {
  SyntheticChunk chunk = distinct(3);
  chunk.insert(chunk.begin() + 1, 999, chunk[1]);
  SyntheticProgram program;
  program.add({chunk});
  const Result r = walk(program, SyntheticStack({chunk}, kBase));
  EXPECT_EQ(r.entries, (std::vector<std::uint64_t>{chunk[0].pc, chunk[1].pc, MEMPROF_RUN_MARK | 999,
                                                   chunk.back().pc}));
  EXPECT_EQ(r.capture.n_frames, 1002u);
}

TEST_F(FrametableWalkTest, RunAtTheOuterEnd) {
  SyntheticChunk chunk(5, {0x401000, 16});
  SyntheticProgram program;
  program.add({chunk});
  const Result r = walk(program, SyntheticStack({chunk}, kBase));
  EXPECT_EQ(r.entries, (std::vector<std::uint64_t>{0x401000, MEMPROF_RUN_MARK | 4}));
}

TEST_F(FrametableWalkTest, MutualRecursionStaysAsItIs) {
  SyntheticChunk chunk;
  for (int i = 0; i < 500; ++i) {
    chunk.push_back({0x401000, 24});
    chunk.push_back({0x402000, 40});
  }
  expect_like_reference({chunk});
}

TEST_F(FrametableWalkTest, CallbackChunks) {
  std::vector<SyntheticChunk> chunks;
  for (int i = 1; i < 40; ++i) chunks.push_back(distinct(i % 7 + 1));
  expect_like_reference(chunks);
}

TEST_F(FrametableWalkTest, SameAddressOnBothSidesOfAChunkBottom) {
  expect_like_reference({{{0x401000, 16}}, {{0x401000, 16}}, {{0x402000, 16}}});
}

TEST_F(FrametableWalkTest, FramesLargerThanOneRead) {
  expect_like_reference({distinct(50, 520), distinct(50, 0xFFF8), distinct(10, 512)});
}

// Every position of the next word relative to the end of what was read.
TEST_F(FrametableWalkTest, ReadBoundaries) {
  for (std::uint16_t size = 8; size <= 1040; size += 8) {
    SyntheticChunk chunk{{0x401000, 8}, {0x402000, size}, {0x403000, 8}, {0x404000, 504}};
    expect_like_reference({chunk, chunk});
  }
}

TEST_F(FrametableWalkTest, StackThatEndsWithinAReadIsReadWordByWord) {
  const std::vector<SyntheticChunk> chunks{distinct(5), distinct(5)};
  SyntheticProgram program;
  program.add(chunks);
  const SyntheticStack stack(chunks, kBase, 4, 0);
  ASSERT_LT(stack.words().size() * 8, 512u);
  const Result r = walk(program, stack);
  EXPECT_EQ(r.frames.size(), 10u);
  EXPECT_EQ(r.capture.flags, 0u);
}

TEST_F(FrametableWalkTest, UnreadableMemoryKeepsTheFramesSoFar) {
  const std::vector<SyntheticChunk> chunks{distinct(200)};
  SyntheticProgram program;
  program.add(chunks);
  SyntheticStack stack(chunks, kBase);
  stack.words().resize(2 * 100);  // 100 frames of 16 bytes
  const Result r = walk(program, stack);
  EXPECT_EQ(r.capture.n_frames, 101u);  // the last word read names the 101st
  EXPECT_EQ(r.capture.flags, MEMPROF_CAPTURE_BROKEN);
}

TEST_F(FrametableWalkTest, UnreadableCallbackLink) {
  const std::vector<SyntheticChunk> chunks{distinct(3)};
  SyntheticProgram program;
  program.add(chunks);
  SyntheticStack stack(chunks, kBase);
  stack.words().resize(2 * 3 + 3);  // half of the link
  const Result r = walk(program, stack);
  EXPECT_EQ(r.capture.n_frames, 3u);
  EXPECT_EQ(r.capture.flags, MEMPROF_CAPTURE_BROKEN);
}

TEST_F(FrametableWalkTest, UnknownAddressEndsTheWalk) {
  std::vector<SyntheticChunk> chunks{distinct(10)};
  SyntheticProgram program;
  program.add(chunks);
  chunks[0][6].pc = 0x666666;
  const Result r = walk(program, SyntheticStack(chunks, kBase));
  EXPECT_EQ(r.capture.n_frames, 6u);
  EXPECT_EQ(r.capture.flags, MEMPROF_CAPTURE_BROKEN);
}

TEST_F(FrametableWalkTest, AddressesThatTheTableCannotHoldAreUnknown) {
  SyntheticProgram program;
  program.add(0x401000, 16);
  for (const std::uint64_t pc : {0ull, 0x401000 | 1ull << 48, 0x401000 | 1ull << 63}) {
    const Result r = walk(program, SyntheticStack({{{pc, 16}}}, kBase));
    EXPECT_EQ(r.capture.n_frames, 0u) << pc;
    EXPECT_EQ(r.capture.flags, MEMPROF_CAPTURE_BROKEN) << pc;
  }
}

TEST_F(FrametableWalkTest, FrameSizeZeroDoesNotLoop) {
  SyntheticProgram program;
  program.add(0x401000, 3);  // flag bits only
  SyntheticStack stack({{{0x401000, 16}}}, kBase);
  const Result r = walk(program, stack);
  EXPECT_EQ(r.capture.n_frames, 1u);
  EXPECT_EQ(r.capture.flags, MEMPROF_CAPTURE_BROKEN);
}

TEST_F(FrametableWalkTest, MisalignedStackIsBroken) {
  SyntheticProgram program;
  program.add(0x401000, 20);
  const Result r = walk(program, SyntheticStack({{{0x401000, 24}}}, kBase));
  EXPECT_EQ(r.capture.n_frames, 1u);
  EXPECT_EQ(r.capture.flags, MEMPROF_CAPTURE_BROKEN);
}

TEST_F(FrametableWalkTest, StackPointerThatWrapsAroundIsBroken) {
  SyntheticProgram program;
  program.add(0x401000, 64);
  const SyntheticStack stack({{{0x401000, 64}}}, ~std::uint64_t{0} - 31);
  const Result r = walk(program, stack);
  EXPECT_EQ(r.capture.n_frames, 1u);
  EXPECT_EQ(r.capture.flags, MEMPROF_CAPTURE_BROKEN);
}

TEST_F(FrametableWalkTest, CycleOverChunksEndsAtTheCap) {
  const std::vector<SyntheticChunk> chunks{distinct(4)};
  SyntheticProgram program;
  program.add(chunks);
  SyntheticStack stack(chunks, kBase);
  stack.words()[2 * 4 + 2] = stack.sp();
  stack.words()[2 * 4 + 3] = stack.pc();
  const Result r = walk(program, stack, 1000);
  EXPECT_EQ(r.capture.n_frames, 1000u);
  EXPECT_EQ(r.capture.flags, MEMPROF_CAPTURE_TRUNCATED);
  EXPECT_EQ(r.frames[996], chunks[0][0].pc);
}

TEST_F(FrametableWalkTest, CycleOfEmptyChunksEndsAtTheCap) {
  SyntheticStack stack({SyntheticChunk{}}, kBase);
  stack.words()[2] = stack.sp();
  stack.words()[3] = SyntheticProgram::kStub;
  const Result r = walk(SyntheticProgram(), stack, 1000);
  EXPECT_EQ(r.capture.n_frames, 0u);
  EXPECT_EQ(r.capture.flags, MEMPROF_CAPTURE_TRUNCATED);
}

TEST_F(FrametableWalkTest, FullTableOfOthersEndsTheSearch) {
  table_bits = 3;
  table.assign(8, MEMPROF_SLOT(0x999, 16));
  EXPECT_EQ(memprof_find_slot(0x401000), 0u);
  table[5] = MEMPROF_SLOT(0x401000, 16);
  EXPECT_EQ(memprof_find_slot(0x401000), MEMPROF_SLOT(0x401000, 16));
}

TEST_F(FrametableWalkTest, CapIsExact) {
  for (const std::uint32_t cap : {1u, 9u, 10u, 11u}) expect_like_reference({distinct(10)}, cap);
  // At the cap with nothing but the end beyond it: nothing is missing.
  SyntheticProgram program;
  program.add({distinct(10)});
  const SyntheticStack stack({distinct(10)}, kBase);
  EXPECT_EQ(walk(program, stack, 10).capture.flags, 0u);
  EXPECT_EQ(walk(program, stack, 9).capture.flags, MEMPROF_CAPTURE_TRUNCATED);
}

TEST_F(FrametableWalkTest, CapInsideARunCountsTheRun) {
  SyntheticChunk chunk(100, {0x401000, 16});
  SyntheticProgram program;
  program.add({chunk});
  const Result r = walk(program, SyntheticStack({chunk}, kBase), 60);
  EXPECT_EQ(r.entries, (std::vector<std::uint64_t>{0x401000, MEMPROF_RUN_MARK | 59}));
  EXPECT_EQ(r.capture.flags, MEMPROF_CAPTURE_TRUNCATED);
}

TEST_F(FrametableWalkTest, EntriesEndAtTheirLimit) {
  const int limit = MEMPROF_MAX_STACK_ENTRIES;
  for (const int extra : {0, 1}) {
    SyntheticProgram program;
    program.add({distinct(limit + extra)});
    const Result r = walk(program, SyntheticStack({distinct(limit + extra)}, kBase));
    EXPECT_EQ(r.capture.n_frames, MEMPROF_MAX_STACK_ENTRIES);
    EXPECT_EQ(r.capture.flags, extra == 0 ? 0u : std::uint32_t{MEMPROF_CAPTURE_TRUNCATED});
  }
}

TEST_F(FrametableWalkTest, RunWithoutRoomIsCutOff) {
  SyntheticChunk chunk = distinct(MEMPROF_MAX_STACK_ENTRIES);
  SyntheticProgram program;
  program.add({chunk});
  chunk.insert(chunk.end(), 5, chunk.back());
  const Result r = walk(program, SyntheticStack({chunk}, kBase));
  EXPECT_EQ(r.capture.n_entries, MEMPROF_MAX_STACK_ENTRIES);
  EXPECT_EQ(r.capture.n_frames, MEMPROF_MAX_STACK_ENTRIES);
  EXPECT_EQ(r.capture.flags, MEMPROF_CAPTURE_TRUNCATED);
}

TEST_F(FrametableWalkTest, IdDependsOnEntriesAndAllocIdxOnly) {
  const std::vector<SyntheticChunk> chunks{distinct(20), distinct(7)};
  SyntheticProgram program;
  program.add(chunks);
  const SyntheticStack here(chunks, kBase), there(chunks, kBase + 0x10000, 33, 50);
  const auto id = walk(program, here, 1000, 2).capture.stack_id;
  EXPECT_EQ(walk(program, there, 5000, 2).capture.stack_id, id);
  std::set<std::uint64_t> ids{id};
  for (const std::int32_t alloc_idx : {-1, 0, 1})
    ids.insert(walk(program, here, 1000, alloc_idx).capture.stack_id);
  for (const std::uint32_t cap : {0u, 1u, 26u})
    ids.insert(walk(program, here, std::max(cap, 1u), 2).capture.stack_id);
  EXPECT_EQ(ids.size(), 6u);
}

TEST_F(FrametableWalkTest, IdsOfManyStacksDiffer) {
  std::mt19937_64 random(7);
  const auto functions = random_functions(random, 50);
  SyntheticProgram program;
  program.add({functions});
  std::set<std::vector<std::uint64_t>> stacks;
  std::set<std::uint64_t> ids;
  for (int i = 0; i < 5000; ++i) {
    const auto chunks = random_chunks(random, functions, 1 + i % 6);
    const Result r = walk(program, SyntheticStack(chunks, kBase));
    stacks.insert(r.entries);
    ids.insert(r.capture.stack_id);
  }
  EXPECT_GT(stacks.size(), 2000u);
  EXPECT_EQ(ids.size(), stacks.size());
}

TEST_F(FrametableWalkTest, RandomStacksEqualTheReference) {
  std::mt19937_64 random(20240607);
  for (int i = 0; i < 300; ++i) {
    const auto functions = random_functions(random, 1 + static_cast<int>(random() % 300));
    const auto chunks = random_chunks(random, functions, static_cast<int>(random() % 2000));
    expect_like_reference(chunks, i % 3 == 0 ? 1 + random() % 1000 : 100000);
    if (HasFailure()) FAIL() << "stack " << i;
  }
}

// Hostile stacks: any words may be changed. The walk ends, and says what it saw.
TEST_F(FrametableWalkTest, RandomlyDamagedStacksEqualTheReference) {
  std::mt19937_64 random(99);
  for (int i = 0; i < 300; ++i) {
    const auto functions = random_functions(random, 40);
    const auto chunks = random_chunks(random, functions, 200);
    SyntheticProgram program;
    program.add({functions});
    SyntheticStack stack(chunks, kBase);
    for (int hits = 0; hits < 3; ++hits) {
      auto& word = stack.words()[random() % stack.words().size()];
      word = random() % 2 == 0 ? functions[random() % functions.size()].pc
                               : kBase + random() % stack.words().size() * 8;
    }
    const Result r = walk(program, stack, 500);
    const ReferenceWalk reference = reference_walk(program, stack, 500);
    ASSERT_EQ(r.frames, reference.frames) << "stack " << i;
    ASSERT_EQ(r.capture.flags, reference.flags) << "stack " << i;
  }
}

}  // namespace
}  // namespace memprofd
