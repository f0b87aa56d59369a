// SPDX-License-Identifier: Apache-2.0
// Decodes length and parts of an x86-64 instruction: enough to find jumps, returns and changes of a
// register in compiled code, but not what an instruction means.
//
// Formulas: Intel SDM volume 2, chapter 2 (format) and appendix A (opcode maps). Integer, SSE and
// AVX code; everything else (EVEX, XOP, 3DNow, far jumps) is reported as unknown, not guessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace memprofd {

// Numbers of registers in ModRM.
inline constexpr std::uint8_t kRax = 0, kRdx = 2, kRsp = 4, kRsi = 6, kRdi = 7;

struct X86Instruction {
  enum class Map : std::uint8_t { kOne, k0f, k0f38, k0f3a };

  std::uint8_t length = 0;  // bytes, 1 to 15
  Map map = Map::kOne;
  std::uint8_t opcode = 0;
  bool is_vex = false;
  bool has_66 = false;   // operand size
  bool has_rep = false;  // f2 or f3
  bool wide = false;     // REX.W
  bool has_modrm = false;
  std::uint8_t mode = 0;  // ModRM.mod
  std::uint8_t reg = 0;   // with REX.R: 0 to 15
  std::uint8_t rm = 0;    // with REX.B: 0 to 15; the base of an address where there is one
  bool has_index = false;
  bool rip_relative = false;
  std::int32_t displacement = 0;
  std::int64_t immediate = 0;  // sign-extended; of jumps and calls the distance from the end

  bool is(std::uint8_t code) const { return map == Map::kOne && !is_vex && opcode == code; }
  bool is_jcc() const;
  // True for jmp, call, jcc and loop with an immediate distance.
  bool is_relative() const;
  bool rm_is_register(std::uint8_t number) const { return has_modrm && mode == 3 && rm == number; }
};

// The first instruction of the code; nullopt if it is incomplete or unknown.
std::optional<X86Instruction> decode_x86(std::span<const std::byte> code);

}  // namespace memprofd
