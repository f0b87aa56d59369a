// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/argument_entry.h"

#include <algorithm>

#include "daemon/discover/x86_instruction.h"

namespace memprofd {
namespace {

// The registers and memory that an instruction writes.
struct Written {
  bool known = false;
  std::vector<std::uint8_t> registers;
};

Written into(std::initializer_list<std::uint8_t> registers) { return {true, registers}; }
Written into_rm(const X86Instruction& code) {
  return code.mode == 3 ? into({code.rm}) : into({});  // or memory
}

bool is_arithmetic(std::uint8_t opcode) { return opcode < 0x40 && (opcode & 7) < 6; }
bool is_compare(const X86Instruction& code) {
  const bool of_immediate = code.is(0x80) || code.is(0x81) || code.is(0x83);
  return (code.opcode & 0xf8) == 0x38 || (of_immediate && code.reg == 7);
}

// Covers the instructions that occur at the beginning of functions; all others are unknown.
Written written_by_one_byte_code(const X86Instruction& code) {
  const std::uint8_t op = code.opcode;
  const bool is_test = op == 0x84 || op == 0x85 || op == 0xa8 || op == 0xa9 ||
                       ((op == 0xf6 || op == 0xf7) && code.reg < 2);
  if (is_test || is_compare(code) || op == 0x90 || code.is_jcc()) return into({});
  if (op == 0x8b || op == 0x8d || op == 0x63) return into({code.reg});
  if (op == 0x89 || op == 0xc7) return into_rm(code);
  if (is_arithmetic(op) && (op & 7) == 1) return into_rm(code);
  if (is_arithmetic(op) && (op & 7) == 3) return into({code.reg});
  if (op == 0x81 || op == 0x83) return into_rm(code);
  if (op == 0xc1 || op == 0xd1) return into_rm(code);                           // shifts
  if (op == 0xf7 && code.reg >= 4 && code.reg <= 5) return into({kRax, kRdx});  // mul
  if ((op & 0xf8) == 0x50) return into({kRsp});
  return {};
}

Written written_by(const X86Instruction& code) {
  if (code.is_vex) return {};
  if (code.map == X86Instruction::Map::kOne) return written_by_one_byte_code(code);
  const bool is_nop = code.opcode == 0x1e || code.opcode == 0x1f;  // endbr64
  const bool is_jump = (code.opcode & 0xf0) == 0x80;
  return code.map == X86Instruction::Map::k0f && (is_nop || is_jump) ? into({}) : Written();
}

bool keeps(const X86Instruction& code, const WantedArguments& wanted) {
  const Written written = written_by(code);
  return written.known && std::ranges::none_of(written.registers, [&](std::uint8_t number) {
           return (number == kRsp && wanted.return_address) ||
                  std::ranges::find(wanted.registers, number) != wanted.registers.end();
         });
}

bool all_keep(std::span<const std::byte> code, const WantedArguments& wanted) {
  while (!code.empty()) {
    const auto instruction = decode_x86(code);
    if (!instruction || !keeps(*instruction, wanted)) return false;
    code = code.subspan(instruction->length);
  }
  return true;
}

}  // namespace

std::optional<ArgumentEntry> find_argument_entry(std::span<const std::byte> code,
                                                 std::uint64_t address, const ReadProgram& read,
                                                 const WantedArguments& wanted) {
  const FunctionCode function = read_function_code(code, address, read);
  if (!function.why_uncounted.empty()) return std::nullopt;
  const FunctionEntry& entry = function.entry;
  if (!entry.is_cheap || !all_keep(code.first(entry.at), wanted)) return ArgumentEntry();
  return ArgumentEntry{.at = entry.at, .is_cheap = true};
}

}  // namespace memprofd
