// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/x86_instruction.h"

#include <algorithm>

namespace memprofd {
namespace {

using Map = X86Instruction::Map;

constexpr std::size_t kMaxLength = 15;

// The bytes that follow an opcode.
struct Form {
  bool known = true;
  bool modrm = false;
  std::uint8_t immediate = 0;  // bytes; kWide: 4, or 2 with the operand size prefix
};
constexpr std::uint8_t kWide = 0xff;
constexpr Form kUnknown{.known = false};
constexpr Form kPlain{};
constexpr Form kModrm{.modrm = true};
constexpr Form kModrm8{.modrm = true, .immediate = 1};
constexpr Form kImmediate8{.immediate = 1};
constexpr Form kImmediate{.immediate = kWide};

bool within(unsigned value, unsigned first, unsigned last) {
  return first <= value && value <= last;
}

Form one_byte_form(unsigned op, unsigned reg, bool wide) {
  if (op < 0x40) {
    if ((op & 7) < 4) return kModrm;
    if ((op & 7) == 4) return kImmediate8;
    return (op & 7) == 5 ? kImmediate : kUnknown;
  }
  if (within(op, 0x50, 0x5f) || within(op, 0x6c, 0x6f) || within(op, 0x90, 0x99)) return kPlain;
  if (op == 0x63 || within(op, 0x84, 0x8e)) return kModrm;
  if (op == 0x8f) return reg == 0 ? kModrm : kUnknown;  // else XOP
  if (op == 0x68 || op == 0xa9 || op == 0xe8 || op == 0xe9) return kImmediate;
  if (op == 0x69 || op == 0x81) return {.modrm = true, .immediate = kWide};
  if (op == 0x6a || within(op, 0x70, 0x7f) || op == 0xa8 || within(op, 0xb0, 0xb7)) {
    return kImmediate8;
  }
  if (op == 0x6b || op == 0x80 || op == 0x83 || op == 0xc0 || op == 0xc1 || op == 0xc6) {
    return kModrm8;
  }
  if (within(op, 0x9b, 0x9f) || within(op, 0xa4, 0xa7) || within(op, 0xaa, 0xaf)) return kPlain;
  if (within(op, 0xb8, 0xbf)) {
    return {.immediate = wide ? std::uint8_t{8} : kWide};
  }
  if (op == 0xc2 || op == 0xca) return {.immediate = 2};
  if (op == 0xc7) return {.modrm = true, .immediate = kWide};
  if (op == 0xc3 || op == 0xc9 || op == 0xcb || op == 0xcc || op == 0xcf) return kPlain;
  if (op == 0xcd || within(op, 0xe0, 0xe7) || op == 0xeb) return kImmediate8;
  if (within(op, 0xd0, 0xd3) || within(op, 0xd8, 0xdf) || op >= 0xfe) return kModrm;
  if (op == 0xd7 || within(op, 0xec, 0xef) || op == 0xf1 || op == 0xf4 || op == 0xf5 ||
      within(op, 0xf8, 0xfd)) {
    return kPlain;
  }
  if (op == 0xf6) return reg < 2 ? kModrm8 : kModrm;
  if (op == 0xf7) return reg < 2 ? Form{.modrm = true, .immediate = kWide} : kModrm;
  return kUnknown;
}

Form two_byte_form(unsigned op) {
  if (op == 0x04 || op == 0x0a || op == 0x0c || op == 0x0f || within(op, 0x24, 0x27)) {
    return kUnknown;
  }
  if (within(op, 0x05, 0x09) || op == 0x0b || op == 0x0e || within(op, 0x30, 0x37) || op == 0x77 ||
      within(op, 0xa0, 0xa2) || within(op, 0xa8, 0xaa) || within(op, 0xc8, 0xcf)) {
    return kPlain;
  }
  if (within(op, 0x80, 0x8f)) return kImmediate;
  if (within(op, 0x70, 0x73) || op == 0xa4 || op == 0xac || op == 0xba || op == 0xc2 ||
      within(op, 0xc4, 0xc6)) {
    return kModrm8;
  }
  if (within(op, 0x38, 0x3f) || within(op, 0x7a, 0x7b) || op == 0xa6 || op == 0xa7) return kUnknown;
  return kModrm;
}

// Reads byte by byte; after the end every read fails.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> code)
      : code_(code.first(std::min(code.size(), kMaxLength))) {}

  unsigned peek() const { return at_ < code_.size() ? std::to_integer<unsigned>(code_[at_]) : 0; }
  unsigned next() {
    const unsigned byte = peek();
    failed_ = failed_ || at_ >= code_.size();
    ++at_;
    return byte;
  }
  std::int64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{next()} << (8 * i);
    if (bytes == 0 || bytes == 8) return static_cast<std::int64_t>(value);
    const unsigned unused = 64 - 8 * static_cast<unsigned>(bytes);
    return static_cast<std::int64_t>(value << unused) >> unused;
  }
  bool failed() const { return failed_; }
  std::size_t at() const { return at_; }

 private:
  std::span<const std::byte> code_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

struct Prefixes {
  bool extends_reg = false, extends_index = false, extends_base = false;  // REX.R, .X, .B
};

void read_prefixes(Reader& code, X86Instruction& out, Prefixes& prefixes) {
  for (;; code.next()) {
    const unsigned byte = code.peek();
    if (byte == 0x66) {
      out.has_66 = true;
    } else if (byte == 0xf2 || byte == 0xf3) {
      out.has_rep = true;
    } else if (byte != 0x2e && byte != 0x36 && byte != 0x3e && byte != 0x26 && byte != 0x64 &&
               byte != 0x65 && byte != 0xf0) {
      break;
    }
    if (code.failed()) return;
  }
  if ((code.peek() & 0xf0) != 0x40) return;
  const unsigned rex = code.next();
  out.wide = (rex & 8) != 0;
  prefixes = {(rex & 4) != 0, (rex & 2) != 0, (rex & 1) != 0};
}

// Reads prefixes c5 and c4, whose first bits are those of REX inverted. Returns false for an
// unknown opcode map.
bool read_vex(Reader& code, X86Instruction& out, Prefixes& prefixes) {
  const bool is_long = code.next() == 0xc4;
  const unsigned first = code.next();
  out.is_vex = true;
  prefixes.extends_reg = (first & 0x80) == 0;
  out.map = Map::k0f;
  if (is_long) {
    prefixes.extends_index = (first & 0x40) == 0;
    prefixes.extends_base = (first & 0x20) == 0;
    const unsigned map = first & 0x1f;
    if (map < 1 || map > 3) return false;
    out.map = static_cast<Map>(map);
    out.wide = (code.next() & 0x80) != 0;
  }
  out.opcode = static_cast<std::uint8_t>(code.next());
  return true;
}

void read_opcode(Reader& code, X86Instruction& out) {
  unsigned byte = code.next();
  if (byte == 0x0f) {
    out.map = Map::k0f;
    byte = code.next();
    if (byte == 0x38 || byte == 0x3a) {
      out.map = byte == 0x38 ? Map::k0f38 : Map::k0f3a;
      byte = code.next();
    }
  }
  out.opcode = static_cast<std::uint8_t>(byte);
}

Form form_of(const X86Instruction& instruction, unsigned modrm) {
  switch (instruction.map) {
    case Map::kOne:
      return one_byte_form(instruction.opcode, modrm >> 3 & 7, instruction.wide);
    case Map::k0f:
      return two_byte_form(instruction.opcode);
    case Map::k0f38:
      return kModrm;
    case Map::k0f3a:
      return kModrm8;
  }
  return kUnknown;
}

void read_modrm(Reader& code, const Prefixes& prefixes, X86Instruction& out) {
  const unsigned modrm = code.next();
  out.has_modrm = true;
  out.mode = static_cast<std::uint8_t>(modrm >> 6);
  out.reg = static_cast<std::uint8_t>((modrm >> 3 & 7) + (prefixes.extends_reg ? 8 : 0));
  unsigned base = modrm & 7;
  if (out.mode != 3 && base == 4) {
    const unsigned sib = code.next();
    base = sib & 7;
    out.has_index = (sib >> 3 & 7) != 4 || prefixes.extends_index;
    if (out.mode == 0 && base == 5) out.displacement = static_cast<std::int32_t>(code.number(4));
  } else if (out.mode == 0 && base == 5) {
    out.rip_relative = true;
    out.displacement = static_cast<std::int32_t>(code.number(4));
  }
  out.rm = static_cast<std::uint8_t>(base + (prefixes.extends_base ? 8 : 0));
  if (out.mode == 1) out.displacement = static_cast<std::int32_t>(code.number(1));
  if (out.mode == 2) out.displacement = static_cast<std::int32_t>(code.number(4));
}

}  // namespace

bool X86Instruction::is_jcc() const {
  if (is_vex) return false;
  return map == Map::kOne ? within(opcode, 0x70, 0x7f)
                          : map == Map::k0f && within(opcode, 0x80, 0x8f);
}

bool X86Instruction::is_relative() const {
  return is_jcc() || is(0xe8) || is(0xe9) || is(0xeb) || (is(opcode) && within(opcode, 0xe0, 0xe3));
}

std::optional<X86Instruction> decode_x86(std::span<const std::byte> bytes) {
  Reader code(bytes);
  X86Instruction out;
  Prefixes prefixes;
  read_prefixes(code, out, prefixes);
  if (code.peek() == 0xc4 || code.peek() == 0xc5) {
    if (!read_vex(code, out, prefixes)) return std::nullopt;
  } else {
    read_opcode(code, out);
  }
  const Form form = form_of(out, code.peek());
  // Intel and AMD disagree about short distances after an operand size prefix.
  if (!form.known || code.failed() || (out.has_66 && out.is_relative())) return std::nullopt;
  if (form.modrm) read_modrm(code, prefixes, out);
  if (form.immediate != 0) {
    const std::size_t wide = out.has_66 && !out.wide ? 2 : 4;
    out.immediate = code.number(form.immediate == kWide ? wide : form.immediate);
  }
  if (code.failed()) return std::nullopt;
  out.length = static_cast<std::uint8_t>(code.at());
  return out;
}

}  // namespace memprofd
