// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/function_code.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "daemon/discover/x86_instruction.h"

namespace memprofd {
namespace {

// Maximum number of entries of a jump table; the compiler emits no more than a type has
// constructors.
constexpr std::size_t kMaxJumpTable = 1u << 16;

struct DecodedInstruction {
  std::uint64_t at = 0;  // bytes from the function's begin
  X86Instruction code;
  std::uint64_t end() const { return at + code.length; }
};

// Returns nothing if the code contains an unknown instruction.
std::optional<std::vector<DecodedInstruction>> decode_all(std::span<const std::byte> code) {
  std::vector<DecodedInstruction> all;
  for (std::uint64_t at = 0; at < code.size();) {
    const auto instruction = decode_x86(code.subspan(at));
    if (!instruction) return std::nullopt;
    all.push_back({at, *instruction});
    at += instruction->length;
  }
  return all;
}

bool is_indirect_jump(const X86Instruction& code) { return code.is(0xff) && code.reg == 4; }

// True if only jumps reach the following code.
bool ends_a_block(const X86Instruction& code) {
  return code.is(0xc3) || code.is(0xe9) || code.is(0xeb) || is_indirect_jump(code);
}

// The targets of a function's jumps within the function.
class Jumps {
 public:
  Jumps(const std::vector<DecodedInstruction>& all, std::uint64_t address, std::uint64_t size,
        const ReadProgram& read)
      : all_(all), address_(address), size_(size), read_(read) {}

  // Returns false if a jump is not understood.
  bool find() {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const DecodedInstruction& one = all_[i];
      if (one.code.is_relative() && !one.code.is(0xe8)) {
        add(one.end() + static_cast<std::uint64_t>(one.code.immediate));
      } else if (is_switch(i) && !follow_table(i)) {
        return false;
      }
    }
    return true;
  }
  // True for `add base, register; jmp *register`, where the register holds an entry of a jump
  // table. A tail call through a closure jumps to a loaded address instead.
  bool is_switch(std::size_t i) const {
    const X86Instruction& jump = all_[i].code;
    if (!is_indirect_jump(jump) || jump.mode != 3 || i == 0) return false;
    const X86Instruction& before = all_[i - 1].code;
    const bool adds = (before.is(0x01) && before.rm_is_register(jump.rm)) ||
                      (before.is(0x03) && before.reg == jump.rm);
    return adds && before.wide;
  }
  // True if a jump leads to [begin, end].
  bool lead_to(std::uint64_t begin, std::uint64_t end) const {
    const auto first = targets_.lower_bound(begin);
    return first != targets_.end() && *first <= end;
  }

 private:
  void add(std::uint64_t target) {
    if (target < size_) targets_.insert(target);
  }

  // Reads the table of `lea table(%rip), base; movslq (base, index, 4), register; add; jmp`. Its
  // entries are distances from the table. Its length is unknown: it ends at the latest at the first
  // entry that points outside of the function. Reading into another table of the same function is
  // harmless.
  bool follow_table(std::size_t jump) {
    for (std::size_t i = jump; i-- > 0 && jump - i <= 4;) {
      const DecodedInstruction& one = all_[i];
      if (!one.code.is(0x8d) || !one.code.rip_relative) continue;
      const std::uint64_t table =
          address_ + one.end() + static_cast<std::uint64_t>(std::int64_t{one.code.displacement});
      return read_table(table);
    }
    return false;
  }

  bool read_table(std::uint64_t table) {
    for (std::size_t n = 0; n < kMaxJumpTable; ++n) {
      std::array<std::byte, 4> bytes{};
      if (!read_(table + 4 * n, bytes)) return n > 0;
      std::int32_t distance = 0;
      std::memcpy(&distance, bytes.data(), sizeof distance);
      const std::uint64_t target =
          table + static_cast<std::uint64_t>(std::int64_t{distance}) - address_;
      if (target >= size_) return n > 0;
      add(target);
    }
    return false;
  }

  const std::vector<DecodedInstruction>& all_;
  const std::uint64_t address_;
  const std::uint64_t size_;
  const ReadProgram& read_;
  std::set<std::uint64_t> targets_;
};

// Maximum number of exits of a function; no compiler emits more.
constexpr std::size_t kMaxExits = 1000;

constexpr std::uint8_t kYoungPtr = 15;  // in OCaml code

// True if the instruction may write this register, named in its ModRM byte. Even opcodes work on
// bytes, where number 4 is another register.
bool may_write(const X86Instruction& code, std::uint8_t number) {
  if (code.map != X86Instruction::Map::kOne || code.is_vex || !code.has_modrm) return false;
  const unsigned op = code.opcode;
  const bool is_group = op == 0x81 || op == 0x83 || op == 0x8f || op >= 0xc0;
  const bool is_x87 = (op & 0xf8) == 0xd8;
  const bool is_compare =
      op == 0x85 || (op & 0xf8) == 0x38 || ((op == 0x81 || op == 0x83) && code.reg == 7);
  if (op % 2 == 0 || is_x87 || is_compare) return false;
  const bool writes_rm = is_group || (op < 0x40 && (op & 7) == 1) || op == 0x87 || op == 0x89;
  if (code.rm_is_register(number) && writes_rm) return true;
  const bool writes_reg = !is_group && (op == 0x87 || op == 0x8b || op == 0x8d || op == 0x63 ||
                                        op == 0x69 || op == 0x6b || (op < 0x40 && (op & 7) == 3));
  return writes_reg && code.reg == number;
}

// The amount that an instruction adds to a register; nothing if unknown.
std::optional<std::int64_t> added_to(const X86Instruction& code, std::uint8_t number) {
  if (!may_write(code, number)) return 0;
  if ((code.is(0x81) || code.is(0x83)) && code.rm_is_register(number) && code.wide) {
    if (code.reg == 0) return code.immediate;
    if (code.reg == 5) return -code.immediate;
  }
  if (code.is(0x8d) && code.rm == number && !code.has_index && code.wide) return code.displacement;
  return std::nullopt;
}

// The amount that an instruction adds to rsp; nothing if unknown.
std::optional<std::int64_t> added_to_rsp(const X86Instruction& code) {
  const bool one_byte = code.map == X86Instruction::Map::kOne && !code.is_vex;
  if (!one_byte) return 0;
  if ((code.opcode & 0xf8) == 0x50 || code.is(0x68) || code.is(0x6a)) return -8;
  if ((code.opcode & 0xf8) == 0x58 || code.is(0x8f)) return 8;
  if (code.is(0xff) && code.reg == 6) return -8;                              // push
  if (code.is(0xc9) || (code.is(0x94) && !code.has_66)) return std::nullopt;  // leave, xchg
  return added_to(code, kRsp);
}

std::optional<std::int64_t> added_to_young_ptr(const X86Instruction& code) {
  return added_to(code, kYoungPtr);
}

// Follows rsp through consecutive instructions. OCaml 5 calls C on another stack and switches back:
// mov %rsp, register; mov (..), %rsp; call; mov register, %rsp. An exception switches to the stack
// of its handler and does not return.
class StackPointer {
 public:
  void pass(const X86Instruction& code) {
    if (code.is(0x89) && code.mode == 3 && code.reg == kRsp && code.rm != kRsp) {
      if (is_own_) saved_in_ = code.rm;
      return;
    }
    const bool restores =
        saved_in_ && ((code.is(0x89) && code.rm_is_register(kRsp) && code.reg == *saved_in_) ||
                      (code.is(0x8b) && code.reg == kRsp && code.rm_is_register(*saved_in_)));
    if (restores) {
      is_own_ = true;
    } else if (!added_to_rsp(code)) {
      is_own_ = false;
    }
  }
  // Call where only jumps reach the following code.
  void start_over() { *this = StackPointer(); }
  // True if rsp points to the function's own stack.
  bool is_own() const { return is_own_; }

 private:
  bool is_own_ = true;
  std::optional<std::uint8_t> saved_in_;
};

// All kernels with uprobe links emulate nop, push, call, jmp and jcc.
bool is_emulated(const X86Instruction& code) {
  if (code.has_66 || code.has_rep) return false;
  if (code.is_jcc() || code.is(0xe8) || code.is(0xe9) || code.is(0xeb)) return true;
  return code.map == X86Instruction::Map::kOne && !code.is_vex &&
         (code.opcode == 0x90 || (code.opcode & 0xf8) == 0x50);
}

// The first instruction in the first block that the kernel can emulate.
const DecodedInstruction* cheap_entry(const std::vector<DecodedInstruction>& all) {
  for (const DecodedInstruction& one : all) {
    if (is_emulated(one.code)) return &one;
    if (ends_a_block(one.code)) return nullptr;
  }
  return nullptr;
}

bool is_jump_out(const DecodedInstruction& one, std::uint64_t size) {
  return one.end() + static_cast<std::uint64_t>(one.code.immediate) >= size;
}

void find_exits(const std::vector<DecodedInstruction>& all, const Jumps& jumps, std::uint64_t size,
                FunctionCode& result) {
  StackPointer stack;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const DecodedInstruction& one = all[i];
    const X86Instruction& code = one.code;
    stack.pass(code);
    const bool is_jump = code.is(0xe9) || code.is(0xeb);
    const bool leaves =
        (is_jump && is_jump_out(one, size)) || (is_indirect_jump(code) && !jumps.is_switch(i));
    if ((code.is(0xc3) || leaves) && stack.is_own()) {
      if (result.exits.size() == kMaxExits) {
        result.why_untimed = "it has too many exits";
        break;
      }
      result.exits.push_back({.at = one.at, .is_tail_call = !code.is(0xc3)});
    }
    if ((code.is_jcc() && is_jump_out(one, size)) || code.is(0xc2)) {
      result.why_untimed = "a jump of it is not understood";
    }
    if (ends_a_block(code)) stack.start_over();
  }
}

bool is_exit(const FunctionCode& code, std::uint64_t at) {
  return std::any_of(code.exits.begin(), code.exits.end(),
                     [at](const FunctionExit& exit) { return exit.at == at; });
}

using AddedBy = std::optional<std::int64_t> (*)(const X86Instruction& code);

// Number of words by which the first block has lowered a register before this instruction.
std::optional<std::uint32_t> words_at(const std::vector<DecodedInstruction>& all,
                                      const DecodedInstruction* end, AddedBy added_by) {
  constexpr std::int64_t kMax = 0xffff;  // the maximum that fits into a probe's cookie
  std::int64_t bytes = 0;
  for (const DecodedInstruction* one = all.data(); one != end; ++one) {
    const auto added = added_by(one->code);
    if (!added) return std::nullopt;
    bytes -= *added;
  }
  if (bytes < 0 || bytes % 8 != 0 || bytes / 8 > kMax) return std::nullopt;
  return static_cast<std::uint32_t>(bytes / 8);
}

// The timed entry must not be an exit too, because a probe could not distinguish the two.
void choose_entries(const std::vector<DecodedInstruction>& all, const Jumps& jumps,
                    FunctionCode& result) {
  const DecodedInstruction* const cheap = cheap_entry(all);
  if (cheap != nullptr && !jumps.lead_to(1, cheap->at)) {
    result.entry.at = cheap->at;
    result.entry.is_cheap = true;
    const auto stack_words = words_at(all, cheap, added_to_rsp);
    const auto young_words = words_at(all, cheap, added_to_young_ptr);
    if (stack_words && young_words && !is_exit(result, cheap->at)) {
      result.timed_entry = {.at = cheap->at,
                            .is_cheap = true,
                            .stack_words = *stack_words,
                            .young_words = *young_words};
      return;
    }
  }
  result.timed_entry.is_cheap = is_emulated(all[0].code);
  if (result.why_untimed.empty() && is_exit(result, 0)) result.why_untimed = "it is one jump";
}

}  // namespace

FunctionCode read_function_code(std::span<const std::byte> code, std::uint64_t address,
                                const ReadProgram& read) {
  FunctionCode result;
  const auto all = decode_all(code);
  if (!all || all->empty()) {
    result.why_uncounted = "its code is not understood";
    return result;
  }
  Jumps jumps(*all, address, code.size(), read);
  if (!jumps.find()) {
    result.why_uncounted = "a jump table of it is not understood";
    return result;
  }
  if (jumps.lead_to(0, 0)) {
    result.why_uncounted = "it loops back to its first instruction";
    return result;
  }
  find_exits(*all, jumps, code.size(), result);
  choose_entries(*all, jumps, result);
  return result;
}

}  // namespace memprofd
