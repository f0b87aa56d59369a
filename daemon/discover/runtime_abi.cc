// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/runtime_abi.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <vector>

#include "daemon/discover/elf_file.h"
#include "daemon/util/refusal.h"

namespace memprofd {
namespace {

struct Layout {
  std::string_view series;
  std::uint32_t young_limit;
  std::uint32_t young_ptr;
  std::uint32_t young_alloc_end;
  std::uint32_t bottom_of_stack;
  std::uint32_t last_return_address;
  std::uint32_t stats;
  std::uint32_t heap_chunks;
  bool one_postponed_queue;
};

// runtime/caml/domain_state.tbl of each release series.
constexpr Layout kLayouts[] = {
    {"4.11", 8, 0, 56, 200, 208, 288, 352, true},
    {"4.12", 8, 0, 56, 208, 216, 296, 368, false},
    {"4.13", 0, 8, 56, 208, 216, 296, 368, false},
    {"4.14", 0, 8, 56, 208, 216, 296, 368, false},
};

struct DomainLayout {
  std::string_view series;
  std::uint32_t young_ptr;
  std::uint32_t young_end;
  std::uint32_t current_stack;
  std::uint32_t local_roots;
  std::uint32_t external_interrupt;
  std::uint32_t shared_heap;
  std::uint32_t stats;
  std::uint32_t memprof;
  std::uint32_t memprof_config;
  bool end_lines;
  bool callstacks_stay;
};

// The same of OCaml 5, and struct memprof_domain_s of runtime/memprof.c; without a
// Memprof that works, its places are 0.
constexpr DomainLayout kDomainLayouts[] = {
    {"5.0", 8, 24, 32, 160, 248, 272, 376, 0, 0, false, false},
    {"5.1", 8, 24, 40, 152, 248, 272, 376, 0, 0, false, false},
    {"5.2", 8, 24, 40, 152, 248, 272, 376, 0, 0, true, false},
    {"5.3", 8, 24, 40, 160, 256, 280, 384, 464, 64, true, false},
    {"5.4", 8, 24, 40, 192, 288, 312, 416, 496, 64, true, true},
};
constexpr std::string_view kSupported = "4.11 to 4.14 and 5.0 to 5.4";

// "4.13" of "4.13.1+flambda"; empty when the text is no version.
std::string_view series_of(std::string_view version) {
  const auto digits = [&](std::size_t at) {
    std::size_t n = 0;
    while (at + n < version.size() && std::isdigit(static_cast<unsigned char>(version[at + n])))
      ++n;
    return n;
  };
  const std::size_t major = digits(0);
  if (major == 0 || major > 2 || major >= version.size() || version[major] != '.') return {};
  const std::size_t minor = digits(major + 1);
  return minor == 0 || minor > 2 ? std::string_view() : version.substr(0, major + 1 + minor);
}

// "5.4.0~rc1"; "5.4.1+flambda" is none.
bool is_prerelease(std::string_view version) { return version.find('~') != version.npos; }

// Whether it looks like Sys.ocaml_version: "4.13.1", "5.3.0~beta1", "4.14.0+flambda".
bool is_full_version(std::string_view text) {
  const std::string_view series = series_of(text);
  if (series.empty() || text.size() < series.size() + 2 || text[series.size()] != '.') return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isgraph(c); }) &&
         std::isdigit(static_cast<unsigned char>(text[series.size() + 1]));
}

// The OCaml string whose header is the word at the front of bytes, if it is one.
std::optional<std::string_view> ocaml_string(std::string_view bytes) {
  constexpr std::uint64_t kStringTag = 252;
  constexpr std::uint64_t kMaxWords = 16;
  std::uint64_t header = 0;
  if (bytes.size() < 2 * sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::uint64_t words = header >> 10;
  if ((header & 0xff) != kStringTag || words == 0 || words > kMaxWords) return std::nullopt;
  if (bytes.size() < (words + 1) * 8) return std::nullopt;
  const std::uint64_t padding = static_cast<unsigned char>(bytes[words * 8 + 7]);
  if (padding > 7) return std::nullopt;
  return bytes.substr(8, words * 8 - 1 - padding);
}

std::optional<std::string> version_in_sys_module(const ElfFile& program) {
  static constexpr std::string_view kBounds[] = {
      "camlStdlib__Sys__data_begin", "camlStdlib__Sys__data_end", "camlStdlib__Sys.data_begin",
      "camlStdlib__Sys.data_end", "camlStdlib__Sys"};
  constexpr std::uint64_t kMaxBytes = 64 << 10;
  const auto symbols = program.find_symbols(kBounds);
  for (std::size_t i = 0; i + 1 < symbols.size(); i += 2) {
    if (!symbols[i] || !symbols[i + 1]) continue;
    const std::uint64_t begin = symbols[i]->address & ~7ull;
    const std::uint64_t end = symbols[i + 1]->address;
    if (end <= begin || end - begin > kMaxBytes) continue;
    std::vector<std::byte> data(end - begin);
    if (!program.read(begin, data).ok()) continue;
    if (auto version = find_version_string(data)) return version;
  }
  return std::nullopt;
}

// Offsets after opcode prefix: a displacement of 1 or 4 bytes.
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

absl::StatusOr<RuntimeAbi> runtime_abi_for(std::string_view version) {
  const std::string_view series = series_of(version);
  for (const Layout& layout : kLayouts) {
    if (layout.series != series) continue;
    return RuntimeAbi{.version = std::string(version),
                      .young_limit = layout.young_limit,
                      .young_ptr = layout.young_ptr,
                      .young_alloc_end = layout.young_alloc_end,
                      .bottom_of_stack = layout.bottom_of_stack,
                      .last_return_address = layout.last_return_address,
                      .stats = layout.stats,
                      .heap_chunks = layout.heap_chunks,
                      .local_roots = layout.stats - 8,
                      .one_postponed_queue = layout.one_postponed_queue};
  }
  for (const DomainLayout& layout : kDomainLayouts) {
    if (layout.series != series) continue;
    return RuntimeAbi{.version = std::string(version),
                      .has_memprof = layout.memprof != 0,
                      .young_ptr = layout.young_ptr,
                      .young_alloc_end = layout.young_end,
                      .stats = layout.stats,
                      .local_roots = layout.local_roots,
                      .domains = true,
                      .current_stack = layout.current_stack,
                      .external_interrupt = layout.external_interrupt,
                      .memprof = layout.memprof,
                      .memprof_config = layout.memprof_config,
                      .shared_heap = layout.shared_heap,
                      .end_lines = layout.end_lines,
                      .callstacks_stay = layout.callstacks_stay && !is_prerelease(version)};
  }
  return refused(Refusal::kVersion,
                 fmt::format("OCaml {} is not supported yet, only {} are", version, kSupported));
}

std::optional<std::string> find_version_string(std::span<const std::byte> section) {
  const std::string_view bytes(reinterpret_cast<const char*>(section.data()), section.size());
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const auto text = ocaml_string(bytes.substr(at));
    if (text && is_full_version(*text)) return std::string(*text);
  }
  return std::nullopt;
}

std::string detect_runtime_version(const ElfFile& program) {
  if (auto version = version_in_sys_module(program)) return *version;
  // Each symbol is new in its release: the per-domain Memprof, compaction and a count of
  // all minor collections, domains, In_channel/Out_channel, and the Memprof of each thread.
  static constexpr std::pair<std::string_view, std::string_view> kNewIn[] = {
      {"caml_memprof_discard", "5.3"},
      {"caml_compactions_count", "5.2"},
      {"caml_minor_collections_count", "5.1"},
      {"caml_domain_spawn", "5.0"},
      {"caml_ml_set_buffered", "4.14"}};
  for (const auto& [symbol, version] : kNewIn) {
    if (program.find_symbol(symbol)) return std::string(version);
  }
  if (!program.find_symbol("caml_memprof_enter_thread")) return "4.11";
  // 4.13 exchanged young_limit and young_ptr.
  std::array<std::byte, 64> code = {};
  const auto c_call = program.find_symbol("caml_c_call");
  if (!c_call || !program.read(c_call->address, code).ok()) return "4.13";
  return decode_caml_c_call(code).young_ptr.value_or(8) == 0 ? "4.12" : "4.13";
}

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
