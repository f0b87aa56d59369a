// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/probe_point.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace memprofd {
namespace {

constexpr std::array kEndbr64 = {std::byte{0xf3}, std::byte{0x0f}, std::byte{0x1e},
                                 std::byte{0xfa}};

struct Instruction {
  std::string_view name;
  bool emulated = false;  // the kernel emulates it, on all relevant kernels
};

// Two-byte opcodes, 0f xx. The multi-byte nop is emulated, but does not count as cheap: some
// kernels rewrite its five-byte form into a call that destroys the red zone.
std::string_view name_two_byte(unsigned opcode) {
  if (opcode == 0x1f || opcode == 0x1e) return "long nop";
  if (opcode == 0x05) return "syscall";
  if (opcode >= 0x80 && opcode <= 0x8f) return "jcc";
  if (opcode == 0xb6 || opcode == 0xb7 || opcode == 0xbe || opcode == 0xbf) return "movx";
  return "other";
}

// op: the opcode after prefixes; reg: the middle bits of the ModRM byte.
std::string_view name_one_byte(unsigned op, unsigned reg) {
  static constexpr std::string_view kArithmetic[] = {"add", "or",  "adc", "sbb",
                                                     "and", "sub", "xor", "cmp"};
  if (op < 0x40 && (op & 7) < 6) return kArithmetic[op >> 3];
  if (op == 0x81 || op == 0x83) return kArithmetic[reg];
  if (op >= 0x58 && op <= 0x5f) return "pop";
  if (op >= 0x70 && op <= 0x7f) return "jcc";
  if (op == 0x84 || op == 0x85) return "test";
  if ((op >= 0x88 && op <= 0x8b) || (op >= 0xb0 && op <= 0xbf) || op == 0xc6 || op == 0xc7) {
    return "mov";
  }
  if (op == 0x8d) return "lea";
  if (op == 0xc3) return "ret";
  if (op == 0xcc) return "int3";
  return "other";
}

Instruction classify(std::span<const std::byte> code) {
  const auto at = [&](std::size_t i) {
    return i < code.size() ? std::to_integer<unsigned>(code[i]) : 0u;
  };
  std::size_t i = 0;
  if (at(i) == 0x90) return {"nop", true};
  if (at(i) == 0xeb || at(i) == 0xe9) return {"jmp", true};
  if (at(i) == 0xe8) return {"call", true};
  if (at(i) >= 0x50 && at(i) <= 0x57) return {"push", true};
  if (at(i) == 0x41 && at(i + 1) >= 0x50 && at(i + 1) <= 0x57) return {"push", true};
  if (code.empty()) return {"unreadable"};
  while (i < 4 && (at(i) == 0x64 || at(i) == 0x66 || at(i) == 0xf2 || at(i) == 0xf3)) ++i;
  if ((at(i) & 0xf0) == 0x40) ++i;  // REX
  if (at(i) == 0x0f) return {name_two_byte(at(i + 1))};
  return {name_one_byte(at(i), at(i + 1) >> 3 & 7)};
}

// Length of a move, load, lea or test of registers (8 or 4 bytes), with prefixes; 0 for anything
// else. Intel SDM volume 2, 2.1: ModRM, SIB, displacement.
std::size_t length_of_move(std::span<const std::byte> code) {
  const auto at = [&](std::size_t i) {
    return i < code.size() ? std::to_integer<unsigned>(code[i]) : 0u;
  };
  std::size_t i = at(0) == 0x64 ? 1 : 0;  // %fs:
  if ((at(i) & 0xf0) == 0x40) ++i;        // REX
  if (at(i) != 0x89 && at(i) != 0x8b && at(i) != 0x8d && at(i) != 0x85) return 0;
  const unsigned mode = at(i + 1) >> 6, base = at(i + 1) & 7;
  i += 2;
  const bool has_sib = mode != 3 && base == 4;
  const unsigned sib_base = has_sib ? at(i) & 7 : base;
  if (has_sib) ++i;
  if (mode == 1) return i + 1;
  if (mode == 2 || (mode == 0 && sib_base == 5)) return i + 4;
  return i;
}

}  // namespace

std::optional<ProbePoint> choose_tail_jump(std::span<const std::byte> code,
                                           std::uint64_t file_offset, std::uint64_t address) {
  std::size_t at = std::ranges::equal(code.first(std::min(code.size(), kEndbr64.size())), kEndbr64)
                       ? kEndbr64.size()
                       : 0;
  while (at < code.size()) {
    const auto rest = code.subspan(at);
    if (rest[0] == std::byte{0xe9} || rest[0] == std::byte{0xeb}) {
      return ProbePoint{.file_offset = file_offset + at,
                        .address = address + at,
                        .cheap = true,
                        .instruction = "jmp"};
    }
    const std::size_t length = length_of_move(rest);
    if (length == 0) return std::nullopt;
    at += length;
  }
  return std::nullopt;
}

ProbePoint choose_probe_point(std::span<const std::byte> code, std::uint64_t file_offset,
                              std::uint64_t address) {
  std::size_t skip = 0;
  if (code.size() >= kEndbr64.size() &&
      std::equal(kEndbr64.begin(), kEndbr64.end(), code.begin())) {
    skip = kEndbr64.size();
  }
  const Instruction instruction = classify(code.subspan(skip));
  return {.file_offset = file_offset + skip,
          .address = address + skip,
          .cheap = instruction.emulated,
          .instruction = std::string(instruction.name)};
}

}  // namespace memprofd
