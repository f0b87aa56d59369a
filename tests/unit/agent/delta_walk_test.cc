// SPDX-License-Identifier: Apache-2.0
#include "agent-lib/walk/delta_walk.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "tests/unit/agent/walked_code.h"

namespace memprofd {
namespace {

using testing::code;
using testing::frame_bytes;
using testing::kBottom;
using testing::kFirstCode;
using testing::kFunctions;
using testing::Table;

// A program's stack in this test's memory. It grows down and has the OCaml runtime's layout.
class Program {
 public:
  explicit Program(std::size_t words)
      : memory_(static_cast<std::uint64_t*>(
            mmap(nullptr, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        words_(words) {
    go_to(end(), 0);
  }
  ~Program() { munmap(memory_, words_ * 8); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // OCaml calls C code, which uses that many words of this stack and calls OCaml.
  void call_back(std::uint64_t c_words) { link(sp, pc, sp - 8 * (c_words + 8)); }
  void go_to(std::uint64_t stack_end, std::uint64_t caller_pc) {
    link(caller_pc == 0 ? 0 : sp, caller_pc, stack_end - 64);
  }
  void call(std::uint64_t function) {
    word(sp - 8) = pc;
    sp -= frame_bytes(function);
    pc = code(function);
  }
  void leave() {
    if (pc == kBottom) {
      const auto link_at = sp;
      sp = word(link_at + 16);
      pc = word(link_at + 24);
    } else {
      sp += frame_bytes((pc - kFirstCode) / 24);
      pc = word(sp - 8);
    }
  }
  bool can_leave() { return pc != kBottom || word(sp + 16) != 0; }
  bool has_room() const { return sp > begin() + 1024; }
  std::uint64_t begin() const { return reinterpret_cast<std::uint64_t>(memory_); }
  std::uint64_t end() const { return begin() + words_ * 8; }
  static std::uint64_t& word(std::uint64_t address) {
    return *reinterpret_cast<std::uint64_t*>(address);
  }

  std::uint64_t sp = 0, pc = 0;

 private:
  void link(std::uint64_t caller_sp, std::uint64_t caller_pc, std::uint64_t new_sp) {
    sp = new_sp;
    pc = kBottom;
    word(sp + 16) = caller_sp;
    word(sp + 24) = caller_pc;
  }

  std::uint64_t* memory_;
  std::size_t words_;
};

// Result of the runtime's own walk, innermost first.
std::vector<std::uint64_t> walked_anew(const Program& program, const memprof_frame_table& table) {
  std::vector<std::uint64_t> frames;
  auto sp = program.sp, pc = program.pc;
  while (sp != 0) {
    const auto* descriptor = memprof_find_descriptor(&table, pc);
    if (descriptor == nullptr) break;
    if (descriptor->frame_size == MEMPROF_CHUNK_BOTTOM) {
      const auto link_at = sp;
      sp = Program::word(link_at + 16);
      pc = Program::word(link_at + 24);
    } else {
      frames.push_back(pc);
      sp += descriptor->frame_size & 0xfffcu;
      pc = Program::word(sp - 8);
    }
  }
  return frames;
}

class DeltaWalk : public ::testing::Test {
 protected:
  DeltaWalk() : stack_(std::make_unique<memprof_stack>()) {}

  memprof_walk_end walk() {
    // caml_call_gc leaves the return address below the frame.
    Program::word(program_.sp - 8) = program_.pc;
    const auto table = table_.get();
    return memprof_walk_stack(stack_.get(), &table, program_.sp, program_.pc);
  }
  std::vector<std::uint64_t> frames() const {
    std::vector<std::uint64_t> result;
    for (auto i = stack_->count; i-- > 0;)
      if (memprof_slot_kind(&stack_->slots[i]) == MEMPROF_SLOT_FRAME)
        result.push_back(stack_->slots[i].word);
    return result;
  }
  std::uint32_t walked() const { return stack_->count - stack_->kept; }
  void expect_right(memprof_walk_end end = MEMPROF_WALK_WHOLE) {
    EXPECT_EQ(walk(), end);
    EXPECT_EQ(frames(), walked_anew(program_, table_.get()));
  }
  void call(std::initializer_list<std::uint64_t> functions) {
    for (const auto function : functions) program_.call(function);
  }

  Table table_;
  Program program_{1 << 17};
  std::unique_ptr<memprof_stack> stack_;
};

TEST_F(DeltaWalk, WalksWhatIsNewAndVerifiesTheRest) {
  for (int i = 0; i < 100; ++i) program_.call(i % 9);
  expect_right();
  EXPECT_EQ(walked(), 103u);  // the bottom of the outermost chunk and its link
  expect_right();
  EXPECT_EQ(walked(), 0u);
  program_.leave();
  call({11, 12});
  expect_right();
  EXPECT_EQ(walked(), 2u);
}

TEST_F(DeltaWalk, AFrameThatMovesIsWalkedThoughItsCodeIsTheSame) {
  call({1, 2, 3, 4});
  expect_right();
  for (int i = 0; i < 2; ++i) program_.leave();
  call({5, 3, 4});
  expect_right();
}

TEST_F(DeltaWalk, AChangeFarOutIsFoundThoughAllInnerFramesAreTheSame) {
  call({1, 2, 7});
  program_.call(14);
  for (int i = 0; i < 60; ++i) program_.call(i % 9);
  expect_right();
  const auto slots = stack_->count;
  // Functions 7 and 21 have frames of the same size, so their words are at the same places.
  for (std::uint32_t i = 0; i < slots; ++i)
    if (stack_->slots[i].word == code(7))
      Program::word(memprof_slot_address(&stack_->slots[i])) = code(21);
  expect_right();
  EXPECT_EQ(stack_->count, slots);
  EXPECT_LT(stack_->kept, 8u);
}

TEST_F(DeltaWalk, ALinkIsReadAgainWhenItHasChanged) {
  call({1, 2, 3});
  const auto sp = program_.sp, pc = program_.pc;
  program_.call(4);
  program_.call_back(9);
  const auto link_at = program_.sp + 16;
  call({5, 6});
  expect_right();
  // The same chunk, called by C further out.
  Program::word(link_at) = sp;
  Program::word(link_at + 8) = pc;
  expect_right();
  EXPECT_EQ(frames(), (std::vector<std::uint64_t>{code(6), code(5), code(3), code(2), code(1)}));
  Program::word(link_at + 8) = code(3 + 7);
  expect_right();
}

TEST_F(DeltaWalk, AStackThatIsGoneIsNotRead) {
  auto other = std::make_unique<Program>(1 << 12);
  // The outer chunk must have higher addresses, so the lower mapping is the inner program's.
  auto& inner = other->begin() < program_.begin() ? *other : program_;
  auto& outer = &inner == other.get() ? program_ : *other;
  const Table table;
  const auto frames_table = table.get();
  for (int i = 0; i < 20; ++i) outer.call(i % 9);
  inner.go_to(inner.end(), 0);
  Program::word(inner.sp + 16) = outer.sp;
  Program::word(inner.sp + 24) = outer.pc;
  const auto link_at = inner.sp + 16;
  inner.call(3);
  EXPECT_EQ(memprof_walk_stack(stack_.get(), &frames_table, inner.sp, inner.pc),
            MEMPROF_WALK_WHOLE);
  EXPECT_EQ(frames().size(), 21u);
  mprotect(reinterpret_cast<void*>(outer.begin()), outer.end() - outer.begin(), PROT_NONE);
  Program::word(link_at) = Program::word(link_at + 8) = 0;
  EXPECT_EQ(memprof_walk_stack(stack_.get(), &frames_table, inner.sp, inner.pc),
            MEMPROF_WALK_WHOLE);
  EXPECT_EQ(frames().size(), 1u);
  mprotect(reinterpret_cast<void*>(outer.begin()), outer.end() - outer.begin(),
           PROT_READ | PROT_WRITE);
}

TEST_F(DeltaWalk, CodeWithoutADescriptorEndsItUntilThatIsLoaded) {
  call({1, 2, 3});
  Program::word(program_.sp - 8) = program_.pc;
  program_.sp -= 40;  // a frame of a plugin that the table does not have
  program_.pc = code(kFunctions + 3);
  call({4, 5});
  expect_right(MEMPROF_WALK_UNKNOWN);
  EXPECT_EQ(frames().size(), 2u);
  table_.add(code(kFunctions + 3), 40);
  expect_right();
  EXPECT_EQ(frames().size(), 6u);
}

TEST_F(DeltaWalk, AnotherTableForgetsTheSizesOfTheOneBefore) {
  call({1, 2, 3});
  expect_right();
  table_ = Table(0);
  table_.add(code(3), 16);
  for (const auto function : {0, 1, 2}) table_.add(code(function), frame_bytes(function));
  Program::word(program_.sp + 8) = kBottom;  // what is 16 bytes out now
  program_.go_to(program_.sp - 256, 0);
  call({2, 2, 1});
  expect_right();
}

TEST_F(DeltaWalk, TooManyFramesAreReportedAndNotRemembered) {
  call({1});
  expect_right();
  for (std::uint32_t i = 0; i < MEMPROF_STACK_SLOTS - 4; ++i) program_.call(0);
  expect_right();
  program_.call(0);
  EXPECT_EQ(walk(), MEMPROF_WALK_TOO_DEEP);
  EXPECT_EQ(stack_->count, 0u);
  program_.leave();
  expect_right();
}

TEST_F(DeltaWalk, AStackThatDoesNotGrowOutwardIsBroken) {
  call({1});
  program_.call_back(4);
  call({2});
  expect_right();
  Program::word(program_.sp + frame_bytes(2) + 16) = program_.sp;
  EXPECT_EQ(walk(), MEMPROF_WALK_BROKEN);
  EXPECT_EQ(stack_->count, 0u);
}

// Random calls, callbacks, returns, exceptions, and overwritten return addresses, which are rare
// in real programs. Each incremental walk must equal a complete one.
TEST_F(DeltaWalk, FindsWhatAWalkWithoutMemoryFinds) {
  std::mt19937_64 random(20261126);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::uint64_t kept = 0, walks = 0;
  for (int round = 0; round < 30'000; ++round) {
    for (auto steps = below(6); steps > 0; --steps) {
      const auto dice = below(100);
      if (dice < 48 && program_.has_room()) {
        program_.call(below(kFunctions));
      } else if (dice < 52 && program_.has_room()) {
        program_.call_back(below(30));
      } else if (dice < 96) {
        if (program_.can_leave()) program_.leave();
      } else {  // raise
        for (auto frames = below(60); frames > 0 && program_.can_leave(); --frames)
          program_.leave();
      }
    }
    if (below(20) == 0 && stack_->count > 4) {
      // A return address further out is that of another function with a frame of the same size.
      const auto& slot = stack_->slots[below(stack_->count)];
      const auto place = memprof_slot_address(&slot);
      if (memprof_slot_kind(&slot) == MEMPROF_SLOT_FRAME && place >= program_.sp &&
          slot.word < code(7) && Program::word(place) == slot.word)
        Program::word(place) = slot.word + 24 * 7;
    }
    ASSERT_EQ(walk(), MEMPROF_WALK_WHOLE);
    ASSERT_EQ(frames(), walked_anew(program_, table_.get())) << round;
    kept += stack_->kept;
    walks += stack_->count;
  }
  EXPECT_GT(kept, walks / 2);  // most frames came from the remembered part
}

}  // namespace
}  // namespace memprofd
