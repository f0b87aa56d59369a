// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/trip_young_limit.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace memprofd {
namespace {

constexpr std::uint64_t kState = 0x10000, kPending = 0x20000;

// A program that runs while it is read: it acts after the read of a word.
class RunningProgram : public WritableMemory {
 public:
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    std::memcpy(out.data(), &words[address], out.size());
    if (address == moves_after) move();
    return absl::OkStatus();
  }
  absl::Status write(std::uint64_t address, std::span<const std::byte> bytes) const override {
    std::memcpy(&words[address], bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  // As Gc.set does for a minor heap of another size.
  void move() const {
    words[kState + abi.young_ptr] = 0x7f0000200000;
    words[kState + abi.young_alloc_end] = 0x7f0000300000;
    words[kState + abi.young_limit] = 0x7f0000100000;
  }

  RuntimeAbi abi = runtime_abi_for("4.13.1").value();
  std::uint64_t moves_after = 0;
  mutable std::map<std::uint64_t, std::uint64_t> words = {{kState + abi.young_ptr, 0x500000},
                                                          {kState + abi.young_alloc_end, 0x600000},
                                                          {kState + abi.young_limit, 0x400000}};
};

void trip_young_limit(const RunningProgram& program) {
  trip_young_limit_of_domain(program, program.abi, kState, kPending);
}

TEST(Hurry, NextAllocationLooksCloser) {
  const RunningProgram program;
  trip_young_limit(program);
  EXPECT_GE(program.words[kState + program.abi.young_limit],
            program.words[kState + program.abi.young_alloc_end]);
  EXPECT_EQ(program.words[kPending], 1u);
}

// Below its new minor heap the program would allocate on and on.
TEST(Hurry, LimitIsNeverBelowAMinorHeapThatHasMoved) {
  RunningProgram program;
  program.moves_after = kState + program.abi.young_alloc_end;
  trip_young_limit(program);
  EXPECT_GE(program.words[kState + program.abi.young_limit],
            program.words[kState + program.abi.young_alloc_end]);
}

TEST(Hurry, WhatIsNoDomainIsLeftAlone) {
  RunningProgram program;
  program.words[kState + program.abi.young_ptr] = 0x700000;  // beyond the end
  trip_young_limit(program);
  EXPECT_EQ(program.words[kState + program.abi.young_limit], 0x400000u);
  EXPECT_EQ(program.words.count(kPending), 0u);
}

}  // namespace
}  // namespace memprofd
