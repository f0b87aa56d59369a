// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/function_code.h"

#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "daemon/discover/x86_instruction.h"

namespace memprofd {
namespace {

// Entries of one jump table; the compiler makes none for more cases than a type has constructors.
constexpr std::size_t kMaxJumpTable = 1u << 16;

struct Placed {
  std::uint64_t at = 0;  // bytes from the function's begin
  X86Instruction code;
  std::uint64_t end() const { return at + code.length; }
};

// Nothing when some of it is not an instruction that is known.
std::optional<std::vector<Placed>> decode_all(std::span<const std::byte> code) {
  std::vector<Placed> all;
  for (std::uint64_t at = 0; at < code.size();) {
    const auto instruction = decode_x86(code.subspan(at));
    if (!instruction) return std::nullopt;
    all.push_back({at, *instruction});
    at += instruction->length;
  }
  return all;
}

bool is_indirect_jump(const X86Instruction& code) { return code.is(0xff) && code.reg == 4; }

// Whether the code behind it is reached by jumps only.
bool ends_a_block(const X86Instruction& code) {
  return code.is(0xc3) || code.is(0xe9) || code.is(0xeb) || is_indirect_jump(code);
}

// The jumps of one function: where they lead within it.
class Jumps {
 public:
  Jumps(const std::vector<Placed>& all, std::uint64_t address, std::uint64_t size,
        const ReadProgram& read)
      : all_(all), address_(address), size_(size), read_(read) {}

  // False: one is not understood.
  bool find() {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const Placed& one = all_[i];
      if (one.code.is_relative() && !one.code.is(0xe8)) {
        add(one.end() + static_cast<std::uint64_t>(one.code.immediate));
      } else if (is_switch(i) && !follow_table(i)) {
        return false;
      }
    }
    return true;
  }
  // Whether one leads to [begin, end].
  bool lead_to(std::uint64_t begin, std::uint64_t end) const {
    const auto first = targets_.lower_bound(begin);
    return first != targets_.end() && *first <= end;
  }

 private:
  void add(std::uint64_t target) {
    if (target < size_) targets_.insert(target);
  }

  // add base, register; jmp *register: the register was an entry of a table. A tail call through
  // a closure jumps to what it has loaded.
  bool is_switch(std::size_t i) const {
    const X86Instruction& jump = all_[i].code;
    if (!is_indirect_jump(jump) || jump.mode != 3 || i == 0) return false;
    const X86Instruction& before = all_[i - 1].code;
    const bool adds = (before.is(0x01) && before.rm_is_register(jump.rm)) ||
                      (before.is(0x03) && before.reg == jump.rm);
    return adds && before.wide;
  }

  // lea table(%rip), base; movslq (base, index, 4), register; add; jmp. Entries are distances from
  // the table, whose length nothing tells: it has ended by the first that leads elsewhere. What
  // follows it may be another table of the same function, which does no harm.
  bool follow_table(std::size_t jump) {
    for (std::size_t i = jump; i-- > 0 && jump - i <= 4;) {
      const Placed& one = all_[i];
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

  const std::vector<Placed>& all_;
  const std::uint64_t address_;
  const std::uint64_t size_;
  const ReadProgram& read_;
  std::set<std::uint64_t> targets_;
};

// nop, push, call, jmp and jcc are emulated by all kernels that have uprobes as links.
bool is_emulated(const X86Instruction& code) {
  if (code.has_66 || code.has_rep) return false;
  if (code.is_jcc() || code.is(0xe8) || code.is(0xe9) || code.is(0xeb)) return true;
  return code.map == X86Instruction::Map::kOne && !code.is_vex &&
         (code.opcode == 0x90 || (code.opcode & 0xf8) == 0x50);
}

// The first instruction of the first block that is emulated.
const Placed* cheap_entry(const std::vector<Placed>& all) {
  for (const Placed& one : all) {
    if (is_emulated(one.code)) return &one;
    if (ends_a_block(one.code)) return nullptr;
  }
  return nullptr;
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
  const Placed* entry = cheap_entry(*all);
  if (entry != nullptr && !jumps.lead_to(1, entry->at)) {
    result.entry = entry->at;
    result.is_cheap = true;
  }
  return result;
}

}  // namespace memprofd
