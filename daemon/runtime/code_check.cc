// SPDX-License-Identifier: Apache-2.0
#include "daemon/runtime/code_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace memprofd {
namespace {

// The displacement (1 or 4 bytes) after an opcode.
std::optional<std::uint32_t> displacement(std::span<const std::byte> code, std::size_t at,
                                          std::size_t bytes) {
  if (at + bytes > code.size()) return std::nullopt;
  std::uint32_t value = 0;
  std::memcpy(&value, code.data() + at, bytes);
  return value;
}

bool starts_with(std::span<const std::byte> code, std::initializer_list<int> opcode) {
  return code.size() >= opcode.size() &&
         std::equal(opcode.begin(), opcode.end(), code.begin(),
                    [](int a, std::byte b) { return a == std::to_integer<int>(b); });
}

}  // namespace

// The three instructions, in any order, up to the jump that ends the function:
//   41 8f 86 disp32   pop  last_return_address(%r14)
//   49 89 a6 disp32   mov  %rsp, bottom_of_stack(%r14)
//   4d 89 7e disp8    mov  %r15, young_ptr(%r14)   (4d 89 be disp32 when far)
// and in OCaml 5, up to the call:
//   4d 8b 56 disp8    mov  current_stack(%r14), %r10
//   4d 8b 5e disp8    mov  c_stack(%r14), %r11
CodeOffsets decode_caml_c_call(std::span<const std::byte> code) {
  CodeOffsets offsets;
  for (std::size_t i = 0; i < code.size(); ++i) {
    const auto rest = code.subspan(i);
    if (starts_with(rest, {0xff, 0xe0})) break;  // jmp *%rax
    if (starts_with(rest, {0xff, 0xd0})) break;  // call *%rax
    if (starts_with(rest, {0x41, 0x8f, 0x86}) && !offsets.last_return_address) {
      offsets.last_return_address = displacement(rest, 3, 4);
    } else if (starts_with(rest, {0x49, 0x89, 0xa6}) && !offsets.bottom_of_stack) {
      offsets.bottom_of_stack = displacement(rest, 3, 4);
    } else if (starts_with(rest, {0x4d, 0x8b, 0x56}) && !offsets.current_stack) {
      offsets.current_stack = displacement(rest, 3, 1);
    } else if (starts_with(rest, {0x4d, 0x8b, 0x5e}) && !offsets.c_stack) {
      offsets.c_stack = displacement(rest, 3, 1);
    } else if (starts_with(rest, {0x4d, 0x89, 0x7e}) && !offsets.young_ptr) {
      offsets.young_ptr = displacement(rest, 3, 1);
    } else if (starts_with(rest, {0x4d, 0x89, 0xbe}) && !offsets.young_ptr) {
      offsets.young_ptr = displacement(rest, 3, 4);
    } else if (starts_with(rest, {0x4d, 0x89, 0x3e}) && !offsets.young_ptr) {
      offsets.young_ptr = 0;
    }
  }
  return offsets;
}

// 48 8b 80 disp32   mov  requested_external_interrupt(%rax), %rax, up to the first jump
std::optional<std::uint32_t> decode_process_interrupt(std::span<const std::byte> code) {
  for (std::size_t i = 0; i < code.size(); ++i) {
    const auto rest = code.subspan(i);
    if (starts_with(rest, {0xff, 0x25}) || starts_with(rest, {0x74})) break;
    if (starts_with(rest, {0x48, 0x8b, 0x80})) return displacement(rest, 3, 4);
  }
  return std::nullopt;
}

// REX.W, the opcode, and a ModRM byte with a displacement of 4 bytes; r12 as base needs one more.
std::optional<std::uint32_t> decode_far_load(std::span<const std::byte> code, FarLoad which) {
  for (std::size_t i = 0; i + 2 < code.size(); ++i) {
    const int rex = std::to_integer<int>(code[i]);
    const int modrm = std::to_integer<int>(code[i + 2]);
    if ((rex & 0xf8) != 0x48 || code[i + 1] != std::byte{0x8b} || modrm >> 6 != 2) continue;
    const int to = (modrm >> 3 & 7) | (rex & 4) << 1;
    const int from = (modrm & 7) | (rex & 1) << 3;
    constexpr int kRdi = 7;
    if (which == FarLoad::kFromRdi && from != kRdi) continue;
    if (which == FarLoad::kToRdi && to != kRdi) continue;
    return displacement(code, i + ((modrm & 7) == 4 ? 4 : 3), 4);
  }
  return std::nullopt;
}

namespace {

struct Check {
  std::string_view name, function;
  std::uint32_t expected;
  std::optional<std::uint32_t> found;
};

absl::Status verify(const RuntimeAbi& abi, std::span<const Check> checks) {
  for (const Check& check : checks) {
    if (check.found == check.expected) continue;
    return absl::FailedPreconditionError(
        fmt::format("the OCaml {} runtime is a modified build: {} keeps {} at {}, expected {}",
                    abi.version, check.function, check.name,
                    check.found ? std::to_string(*check.found) : "no known place", check.expected));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status verify_runtime_abi(const RuntimeAbi& abi, std::span<const std::byte> caml_c_call) {
  const CodeOffsets code = decode_caml_c_call(caml_c_call);
  std::vector<Check> checks{{"young_ptr", "caml_c_call", abi.young_ptr, code.young_ptr}};
  if (abi.domains) {
    checks.push_back({"current_stack", "caml_c_call", abi.current_stack, code.current_stack});
  } else {
    checks.push_back({"bottom_of_stack", "caml_c_call", abi.bottom_of_stack, code.bottom_of_stack});
    checks.push_back(
        {"last_return_address", "caml_c_call", abi.last_return_address, code.last_return_address});
  }
  return verify(abi, checks);
}

absl::Status verify_agent_abi(const RuntimeAbi& abi, const AgentCode& code) {
  if (!abi.domains) return absl::OkStatus();
  const Check checks[] = {
      {"requested_external_interrupt", "caml_process_external_interrupt", abi.external_interrupt,
       decode_process_interrupt(code.process_interrupt)},
      {"memprof", "caml_memprof_delete_domain", abi.memprof,
       decode_far_load(code.delete_domain, FarLoad::kFromRdi)},
      {"stat_minor_words", "caml_gc_minor_words_unboxed", abi.stats,
       decode_far_load(code.minor_words, FarLoad::kAny)},
      {"shared_heap", "caml_alloc_shr", abi.shared_heap,
       decode_far_load(code.alloc_shr, FarLoad::kToRdi)},
  };
  return verify(abi, checks);
}

}  // namespace memprofd
