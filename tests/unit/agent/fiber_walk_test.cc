// SPDX-License-Identifier: Apache-2.0
#include "agent-lib/walk/fiber_walk.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
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

constexpr std::uint64_t kInfoBytes = 64, kHandlerBytes = 32;

std::uint64_t& word(std::uint64_t address) { return *reinterpret_cast<std::uint64_t*>(address); }

// First-fit allocator for fibers: freed memory is soon overwritten by fibers of other sizes.
class Arena {
 public:
  explicit Arena(std::size_t words) : memory_(words) {}
  // 0: there is no room.
  std::uint64_t take(std::uint64_t bytes) {
    auto at = reinterpret_cast<std::uint64_t>(memory_.data());
    const auto end = at + memory_.size() * 8;
    for (const auto& [begin, size] : taken_) {
      if (begin - at >= bytes) break;
      at = begin + size;
    }
    if (at + bytes > end) return 0;
    taken_[at] = bytes;
    return at;
  }
  void give(std::uint64_t at) { taken_.erase(at); }

 private:
  std::vector<std::uint64_t> memory_;
  std::map<std::uint64_t, std::uint64_t> taken_;
};

// A stack_info, the stack, which grows down to it, and its handler.
struct Fiber {
  std::uint64_t at, bytes;
  std::uint64_t end() const { return at + bytes - kHandlerBytes; }
  std::uint64_t& sp() const { return word(at + MEMPROF_FIBER_SP); }
  std::uint64_t& parent() const { return word(end() + MEMPROF_FIBER_PARENT); }
};

// A program that runs in its innermost fiber. sp of a fiber is the place of its return address.
class Program {
 public:
  explicit Program(Arena* arena) : arena_(arena) { fibers_.push_back(make(1 << 13, 0)); }

  Fiber& current() { return fibers_.back(); }
  bool has_room(std::uint64_t bytes = 128) {
    return current().sp() > current().at + kInfoBytes + bytes;
  }
  void call(std::uint64_t function) {
    const auto sp = current().sp();
    current().sp() = sp - frame_bytes(function);
    word(current().sp()) = code(function);
  }
  // C calls OCaml; its parent is hidden until it returns.
  void call_back() {
    const auto sp = current().sp();
    current().sp() = sp - MEMPROF_BOTTOM_BYTES - 8;
    word(current().sp()) = kBottom;
  }
  void perform(std::uint64_t bytes) {
    Fiber fiber = make(bytes, current().at);
    if (fiber.at != 0) fibers_.push_back(fiber);
  }
  // Out of the innermost frame or chunk; out of a fiber at its end.
  void leave() {
    auto& fiber = current();
    const auto pc = word(fiber.sp());
    if (pc != kBottom) {
      fiber.sp() += frame_bytes((pc - kFirstCode) / 24);
    } else if (fiber.sp() + 8 + MEMPROF_BOTTOM_BYTES != fiber.end()) {
      fiber.sp() += 8 + MEMPROF_BOTTOM_BYTES;
    } else if (fibers_.size() > 1) {
      arena_->give(fiber.at);
      fibers_.pop_back();
    }
  }
  // Suspends the innermost fibers; resume() attaches them again.
  void suspend(std::size_t fibers) {
    if (fibers >= fibers_.size()) return;
    suspended_.emplace_back(fibers_.end() - static_cast<std::ptrdiff_t>(fibers), fibers_.end());
    fibers_.resize(fibers_.size() - fibers);
  }
  void resume(std::size_t which) {
    if (suspended_.empty()) return;
    const auto at = suspended_.begin() + static_cast<std::ptrdiff_t>(which % suspended_.size());
    at->front().parent() = current().at;
    fibers_.insert(fibers_.end(), at->begin(), at->end());
    suspended_.erase(at);
  }
  // Copies a fiber's stack to another one, because it is too small.
  void move(std::uint64_t bytes) {
    auto& old = current();
    if (bytes < old.bytes) bytes = old.bytes;
    Fiber fiber = make(bytes, old.parent());
    if (fiber.at == 0) return;
    const auto used = old.end() - old.sp();
    fiber.sp() = fiber.end() - used;
    std::memcpy(reinterpret_cast<void*>(fiber.sp()), reinterpret_cast<void*>(old.sp()), used);
    arena_->give(old.at);
    old = fiber;
  }
  std::size_t fibers() const { return fibers_.size(); }
  std::size_t suspended() const { return suspended_.size(); }
  void forget_suspended() {
    for (const auto& fibers : suspended_)
      for (const auto& fiber : fibers) arena_->give(fiber.at);
    suspended_.clear();
  }

 private:
  Fiber make(std::uint64_t bytes, std::uint64_t parent) {
    Fiber fiber{arena_->take(bytes), bytes};
    if (fiber.at == 0) return fiber;
    word(fiber.at + MEMPROF_FIBER_END) = fiber.end();
    fiber.parent() = parent;
    fiber.sp() = fiber.end() - MEMPROF_BOTTOM_BYTES - 8;
    word(fiber.sp()) = kBottom;
    return fiber;
  }

  Arena* arena_;
  std::vector<Fiber> fibers_;  // innermost last
  std::vector<std::vector<Fiber>> suspended_;
};

class FiberWalk : public ::testing::Test {
 protected:
  FiberWalk() : stack_(std::make_unique<memprof_stack>()) {}

  memprof_fiber_begin begin() {
    const auto& fiber = program_.current();
    return {fiber.at, fiber.end(), fiber.parent(), fiber.sp() + 8, word(fiber.sp())};
  }
  // During a callback, memory does not hold the innermost fiber's parent.
  memprof_walk_end walk() {
    const auto from = begin();
    auto& parent = program_.current().parent();
    const auto table = table_.get();
    parent = 0;
    const auto end = memprof_walk_fibers(stack_.get(), &table, &from);
    parent = from.parent;
    return end;
  }
  std::vector<std::uint64_t> frames() const {
    std::vector<std::uint64_t> result;
    for (auto i = stack_->count; i-- > 0;)
      if (memprof_slot_kind(&stack_->slots[i]) == MEMPROF_SLOT_FRAME)
        result.push_back(stack_->slots[i].word);
    return result;
  }
  // Result of the runtime's own walk, innermost first.
  std::vector<std::uint64_t> walked_anew() {
    std::vector<std::uint64_t> result;
    for (auto fiber = program_.current().at; fiber != 0;) {
      const auto end = word(fiber + MEMPROF_FIBER_END);
      auto sp = word(fiber + MEMPROF_FIBER_SP);
      while (true) {
        const auto pc = word(sp);
        if (pc != kBottom) {
          result.push_back(pc);
          sp += frame_bytes((pc - kFirstCode) / 24);
        } else if (sp + 8 + MEMPROF_BOTTOM_BYTES == end) {
          break;
        } else {
          sp += 8 + MEMPROF_BOTTOM_BYTES;
        }
      }
      fiber = word(end + MEMPROF_FIBER_PARENT);
    }
    return result;
  }
  void expect_right() {
    EXPECT_EQ(walk(), MEMPROF_WALK_WHOLE);
    EXPECT_EQ(frames(), walked_anew());
  }
  std::uint32_t walked() const { return stack_->count - stack_->kept; }
  void call(std::initializer_list<std::uint64_t> functions) {
    for (const auto function : functions) program_.call(function);
  }

  Table table_;
  Arena arena_{1 << 16};
  Program program_{&arena_};
  std::unique_ptr<memprof_stack> stack_;
};

TEST_F(FiberWalk, WalksWhatIsNewAndVerifiesTheRest) {
  for (int i = 0; i < 50; ++i) program_.call(i % 9);
  program_.perform(2048);
  call({1, 2, 3});
  expect_right();
  EXPECT_EQ(walked(), 50u + 3 + 2 + 4);  // two bottoms, three links and the outermost parent
  expect_right();
  EXPECT_EQ(walked(), 0u);
  program_.leave();
  call({11, 12});
  expect_right();
  EXPECT_EQ(walked(), 2u);
}

TEST_F(FiberWalk, OnlyTheParentOfAnotherFiberIsKept) {
  for (int i = 0; i < 50; ++i) program_.call(i % 9);
  program_.perform(2048);
  call({1, 2, 3});
  expect_right();
  program_.suspend(1);
  program_.perform(2048);
  call({4, 5});
  expect_right();
  EXPECT_EQ(walked(), 2u + 1 + 3);
  program_.suspend(1);
  program_.resume(0);
  expect_right();
  EXPECT_EQ(walked(), 3u + 1 + 3);
}

TEST_F(FiberWalk, AFiberThatIsResumedElsewhereHasAnotherParent) {
  call({1, 2, 3});
  program_.perform(2048);
  call({4, 5, 6});
  expect_right();
  program_.suspend(1);
  program_.leave();
  call({3, 7, 8});
  program_.resume(0);
  expect_right();
  program_.suspend(1);
  program_.perform(4096);
  call({9});
  program_.resume(0);
  expect_right();
}

TEST_F(FiberWalk, AHiddenParentIsNotTakenForNone) {
  call({1, 2});
  program_.perform(2048);
  call({3});
  expect_right();
  // The same stack without a parent.
  const auto parent = program_.current().parent();
  program_.current().parent() = 0;
  expect_right();
  EXPECT_EQ(frames().size(), 1u);
  program_.current().parent() = parent;
  expect_right();
  EXPECT_EQ(frames().size(), 3u);
}

TEST_F(FiberWalk, AStackOfAnotherSizeInTheSamePlaceIsAnotherOne) {
  call({1, 6});
  program_.call_back();
  const auto bottom = program_.current().sp() + 8;
  call({3, 4});
  expect_right();
  EXPECT_EQ(frames().size(), 4u);
  // The same words, but this chunk is the outermost one.
  auto& fiber = program_.current();
  const auto end = bottom + MEMPROF_BOTTOM_BYTES;
  word(end + MEMPROF_FIBER_PARENT) = 0;
  word(fiber.at + MEMPROF_FIBER_END) = end;
  fiber.bytes = end + kHandlerBytes - fiber.at;
  expect_right();
  EXPECT_EQ(frames().size(), 2u);
}

TEST_F(FiberWalk, CodeWithoutADescriptorEndsItsFiberUntilThatIsLoaded) {
  call({1, 2, 3});
  program_.perform(2048);
  call({4});
  program_.current().sp() -= 40;
  word(program_.current().sp()) = code(kFunctions + 3);
  call({5, 6});
  EXPECT_EQ(walk(), MEMPROF_WALK_UNKNOWN);
  EXPECT_EQ(frames(), (std::vector<std::uint64_t>{code(6), code(5), code(3), code(2), code(1)}));
  table_.add(code(kFunctions + 3), 40);
  EXPECT_EQ(walk(), MEMPROF_WALK_WHOLE);
  EXPECT_EQ(frames().size(), 7u);
}

TEST_F(FiberWalk, AStackThatDoesNotEndWhereItsFiberDoesIsBroken) {
  call({1, 2});
  expect_right();
  word(program_.current().end() - MEMPROF_BOTTOM_BYTES - 8) = code(6);
  EXPECT_EQ(walk(), MEMPROF_WALK_BROKEN);
  EXPECT_EQ(stack_->count, 0u);
}

TEST_F(FiberWalk, TooManyFramesLeaveTheInnermostOnes) {
  Arena arena(1 << 17);
  Program deep(&arena);
  deep.move(1 << 19);
  for (std::uint32_t i = 0; i < MEMPROF_STACK_SLOTS; ++i) deep.call(i % 2 == 0 ? 0 : 7);
  std::swap(program_, deep);
  EXPECT_EQ(walk(), MEMPROF_WALK_TOO_DEEP);
  EXPECT_EQ(stack_->count, 0u);
  EXPECT_EQ(stack_->slots[MEMPROF_STACK_SLOTS - 1].word, code(7));
  EXPECT_EQ(stack_->slots[MEMPROF_STACK_SLOTS - 2].word, code(0));
  for (int i = 0; i < 100; ++i) program_.leave();
  expect_right();
  std::swap(program_, deep);
  expect_right();
}

// Random operations on fibers. Each incremental walk must equal a complete one.
TEST_F(FiberWalk, FindsWhatAWalkWithoutMemoryFinds) {
  std::mt19937_64 random(20261127);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::uint64_t kept = 0, walks = 0;
  for (int round = 0; round < 60'000; ++round) {
    for (auto steps = below(6); steps > 0; --steps) {
      const auto dice = below(100);
      if (dice < 44 && program_.has_room()) {
        program_.call(below(kFunctions));
      } else if (dice < 47 && program_.has_room()) {
        program_.call_back();
      } else if (dice < 50) {
        if (program_.fibers() < 6) program_.perform(1024u << below(3));
      } else if (dice < 53) {
        if (program_.suspended() < 8) program_.suspend(1 + below(2));
      } else if (dice < 57) {
        if (program_.fibers() < 6) program_.resume(below(8));
      } else if (dice < 59) {
        program_.move(1024u << below(4));
      } else if (dice < 60) {
        if (program_.suspended() == 8) program_.forget_suspended();
      } else if (dice < 98) {
        program_.leave();
      } else {
        for (auto frames = below(60); frames > 0; --frames) program_.leave();
      }
    }
    const auto end = walk();
    ASSERT_EQ(end, MEMPROF_WALK_WHOLE) << round;
    ASSERT_EQ(frames(), walked_anew()) << round;
    kept += stack_->kept;
    walks += stack_->count;
  }
  EXPECT_GT(kept, walks / 2);  // most frames came from the remembered part
}

}  // namespace
}  // namespace memprofd
