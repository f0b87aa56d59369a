// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/program_check.h"

#include <elf.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/discover/runtime_version.h"
#include "daemon/runtime/code_check.h"
#include "daemon/util/refusal.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

template <typename... Args>
absl::Status refuse(Refusal reason, fmt::format_string<Args...> format, Args&&... args) {
  return refused(reason, fmt::format(format, std::forward<Args>(args)...));
}

// True if the read-only bytes of the file contain the text.
bool contains_text(const ElfFile& file, std::string_view needle) {
  constexpr std::uint64_t kMaxBytes = 64 << 20;
  constexpr std::uint64_t kChunk = 1 << 20;
  std::vector<std::byte> chunk;
  for (const ElfSegment& segment : file.segments()) {
    if (segment.writable || segment.executable) continue;
    const std::uint64_t size = std::min(segment.file_size, kMaxBytes);
    for (std::uint64_t at = 0; at < size; at += kChunk) {
      chunk.resize(std::min(kChunk + needle.size(), size - at));
      if (!file.read(segment.address + at, chunk).ok()) break;
      const std::string_view text(reinterpret_cast<const char*>(chunk.data()), chunk.size());
      if (text.find(needle) != std::string_view::npos) return true;
    }
  }
  return false;
}

// The reason why a file without caml_frametable cannot be profiled.
absl::Status explain_no_frametable(const ElfFile& file) {
  if (!file.why_incomplete().empty()) {
    return refuse(Refusal::kOther, "cannot be read: {}; shorten its symbol table (strip -x)",
                  file.why_incomplete());
  }
  const std::string& path = file.display_name();
  if (file.find_symbol("caml_interprete") || file.find_symbol("caml_main")) {
    return refuse(Refusal::kBytecode,
                  "runs OCaml bytecode in {}: compile the program with ocamlopt to profile it",
                  path);
  }
  // The name of an environment variable that every OCaml runtime reads.
  if (!file.has_symtab() && contains_text(file, "OCAMLRUNPARAM")) {
    return refuse(Refusal::kNoSymbols,
                  "looks like an OCaml program, but {} is stripped and exports no symbols: "
                  "keep its symbol table (no strip, no -ccopt -s)",
                  path);
  }
  return refuse(Refusal::kNotOcaml, "is not an OCaml program: no caml_frametable in {}", path);
}

absl::Status missing(const ElfFile& file, std::string_view symbol) {
  return refuse(Refusal::kNoSymbols,
                "cannot be profiled: no symbol {} in {}; keep its symbol table (no strip)", symbol,
                file.display_name());
}

struct WantedSymbol {
  std::string_view name;
  ElfSymbol RuntimeSymbols::*place;
};

using Wanted = std::span<const WantedSymbol>;

// Symbols that both modes need.
constexpr WantedSymbol kInOcaml4[] = {
    {"caml_frametable", &RuntimeSymbols::frametable},
    {"caml_c_call", &RuntimeSymbols::c_call},
    {"Caml_state", &RuntimeSymbols::state},
};
constexpr Wanted kInOcaml5 = Wanted(kInOcaml4).first(2);
constexpr WantedSymbol kObserveSymbols[] = {
    {"caml_alloc_small_dispatch", &RuntimeSymbols::slow_allocation},
};
constexpr WantedSymbol kAgentInOcaml4[] = {
    {"caml_collect_current_callstack", &RuntimeSymbols::capture},
    {"caml_do_pending_actions_exn", &RuntimeSymbols::safe_point},
    {"caml_memprof_track_interned", &RuntimeSymbols::track_interned},
};
constexpr WantedSymbol kAgentInOcaml5[] = {
    {"caml_get_callstack", &RuntimeSymbols::capture},
    {"caml_do_pending_actions_res", &RuntimeSymbols::safe_point},
    {"caml_process_external_interrupt", &RuntimeSymbols::process_interrupt},
    {"caml_memprof_delete_domain", &RuntimeSymbols::delete_domain},
    {"caml_gc_minor_words_unboxed", &RuntimeSymbols::minor_words},
    {"caml_alloc_shr", &RuntimeSymbols::alloc_shr},
};
constexpr Wanted kAgentCode = Wanted(kAgentInOcaml5).last(4);
// Symbols that not every program has.
constexpr WantedSymbol kOptional[] = {
    {"caml_get_current_callstack", &RuntimeSymbols::user_callstack},
    {"caml_minor_collections_count", &RuntimeSymbols::minor_collections},
    {"caml_major_cycles_completed", &RuntimeSymbols::major_cycles},
    {"caml_compactions_count", &RuntimeSymbols::compactions},
    {"caml_something_to_do", &RuntimeSymbols::pending_actions},
    {"caml_fl_cur_wsz", &RuntimeSymbols::free_words},
    {"caml_state", &RuntimeSymbols::state},
    {"caml_system__code_begin", &RuntimeSymbols::system_begin},
    {"caml_system__code_end", &RuntimeSymbols::system_end},
};

// Sets the symbols that exist. Returns the first missing one, or null.
const WantedSymbol* find_symbols(const ElfFile& file, Wanted wanted, RuntimeSymbols& out) {
  std::vector<std::string_view> names;
  for (const WantedSymbol& symbol : wanted) names.push_back(symbol.name);
  const auto found = file.find_symbols(names);
  const WantedSymbol* first_missing = nullptr;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (found[i]) {
      out.*wanted[i].place = *found[i];
    } else if (first_missing == nullptr) {
      first_missing = &wanted[i];
    }
  }
  return first_missing;
}

// Finds the function that registers the frame tables of plugins, if the program can load plugins.
void find_dynlink(const ElfFile& file, OcamlProgram& program) {
  if (!file.find_symbol("camlDynlink")) return;
  const auto registers = file.find_symbol(program.abi.domains ? "caml_register_frametables"
                                                              : "caml_register_frametable");
  program.symbols.register_frametable = registers.value_or(ElfSymbol());
}

absl::Status require(const ElfFile& file, Wanted wanted, RuntimeSymbols& out) {
  const WantedSymbol* absent = find_symbols(file, wanted, out);
  return absent == nullptr ? absl::OkStatus() : missing(file, absent->name);
}

absl::Status verify_layout(const ElfFile& file, OcamlProgram& program) {
  std::array<std::byte, 64> c_call = {};
  if (!file.read(program.symbols.c_call.address, c_call).ok()) return missing(file, "caml_c_call");
  if (program.abi.domains) program.abi.c_stack = decode_caml_c_call(c_call).c_stack.value_or(0);
  return verify_runtime_abi(program.abi, c_call);
}

absl::Status verify_agent_layout(const ElfFile& file, const OcamlProgram& program) {
  constexpr std::size_t kBytes = 64;
  std::array<std::array<std::byte, kBytes>, kAgentCode.size()> code = {};
  for (std::size_t i = 0; i < code.size(); ++i) {
    const WantedSymbol& function = kAgentCode[i];
    const std::uint64_t address = (program.symbols.*function.place).address;
    if (!file.read(address, code[i]).ok()) return missing(file, function.name);
  }
  return verify_agent_abi(program.abi, {.process_interrupt = code[0],
                                        .delete_domain = code[1],
                                        .minor_words = code[2],
                                        .alloc_shr = code[3]});
}

absl::Status check_agent(const ElfFile& file, OcamlProgram& program) {
  const RuntimeAbi& abi = program.abi;
  if (!abi.has_memprof) {
    return refuse(Refusal::kVersion, "Gc.Memprof does not work in OCaml {}", abi.version);
  }
  RETURN_IF_ERROR(check_capability(abi, Capability::kAttach));
  if (abi.domains) RETURN_IF_ERROR(check_capability(abi, Capability::kDomains));
  if (!file.find_symbol("caml_memprof_start")) {
    return refuse(Refusal::kOther, "this OCaml {} runtime was built without Gc.Memprof",
                  abi.version);
  }
  if (abi.domains && !file.find_symbol(abi.domain_hook)) return missing(file, abi.domain_hook);
  return require(file, abi.domains ? Wanted(kAgentInOcaml5) : Wanted(kAgentInOcaml4),
                 program.symbols);
}

// Finds the possible modes; returns an error if there is none. Both read the domain state of
// OCaml 5.
absl::Status find_modes(const ElfFile& file, OcamlProgram& program) {
  absl::Status agent = check_agent(file, program);
  if (agent.ok() && program.abi.domains) RETURN_IF_ERROR(verify_agent_layout(file, program));
  absl::Status observe = check_capability(program.abi, Capability::kObserve);
  if (observe.ok()) observe = require(file, kObserveSymbols, program.symbols);
  if (!agent.ok() && !observe.ok()) return agent;
  program.why_no_agent = std::string(agent.message());
  program.why_no_observe = std::string(observe.message());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OcamlProgram> check_program(const ElfFile& file) {
  const auto about = [&](const absl::Status& status) {
    return reworded(status,
                    fmt::format("({}): {}", file.display_name(), std::string(status.message())));
  };
  if (!file.find_symbol("caml_frametable")) return explain_no_frametable(file);
  if (file.machine() != EM_X86_64) {
    return refuse(Refusal::kOther,
                  "is an OCaml program for another processor: only x86-64 is supported yet");
  }
  const std::string version = detect_runtime_version(file);
  absl::StatusOr<RuntimeAbi> abi = runtime_abi_for(version);
  if (!abi.ok()) return about(abi.status());
  OcamlProgram program{.abi = *std::move(abi)};
  RETURN_IF_ERROR(
      require(file, program.abi.domains ? kInOcaml5 : Wanted(kInOcaml4), program.symbols));
  find_symbols(file, kOptional, program.symbols);
  find_dynlink(file, program);
  absl::Status status = verify_layout(file, program);
  if (status.ok()) status = find_modes(file, program);
  if (!status.ok()) return about(status);
  return program;
}

RuntimeSymbolCheck locate_symbols(const ElfFile& file) {
  const bool domains = file.find_symbol("caml_domain_spawn").has_value();
  RuntimeSymbolCheck check{.wanted = 1};
  if (!file.find_symbol("caml_memprof_start")) check.missing.emplace_back("caml_memprof_start");
  for (const Wanted wanted : {domains ? kInOcaml5 : Wanted(kInOcaml4), Wanted(kObserveSymbols),
                              domains ? Wanted(kAgentInOcaml5) : Wanted(kAgentInOcaml4)}) {
    check.wanted += wanted.size();
    for (const WantedSymbol& symbol : wanted) {
      if (!file.find_symbol(symbol.name)) check.missing.emplace_back(symbol.name);
    }
  }
  return check;
}

}  // namespace memprofd
