#include "daemon/discover/program_check.h"

#include <elf.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

template <typename... Args>
absl::Status refuse(fmt::format_string<Args...> format, Args&&... args) {
  return absl::FailedPreconditionError(fmt::format(format, std::forward<Args>(args)...));
}

// Whether the read-only bytes of the file hold the text.
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

// Why a file without caml_frametable cannot be profiled.
absl::Status explain_no_frametable(const ElfFile& file) {
  const std::string& path = file.display_name();
  if (file.find_symbol("caml_interprete") || file.find_symbol("caml_main")) {
    return refuse("runs OCaml bytecode in {}: compile the program with ocamlopt to profile it",
                  path);
  }
  // The environment variable that every OCaml runtime reads.
  if (!file.has_symtab() && contains_text(file, "OCAMLRUNPARAM")) {
    return refuse(
        "looks like an OCaml program, but {} is stripped and exports no symbols: "
        "keep its symbol table (no strip, no -ccopt -s)",
        path);
  }
  return refuse("is not an OCaml program: no caml_frametable in {}", path);
}

absl::Status missing(const ElfFile& file, std::string_view symbol) {
  return refuse("cannot be profiled: no symbol {} in {}; keep its symbol table (no strip)", symbol,
                file.display_name());
}

struct WantedSymbol {
  std::string_view name;
  ElfSymbol RuntimeSymbols::*place;
};

constexpr WantedSymbol kOfOcaml4[] = {
    {"caml_frametable", &RuntimeSymbols::frametable},
    {"Caml_state", &RuntimeSymbols::state},
    {"caml_collect_current_callstack", &RuntimeSymbols::capture},
    {"caml_do_pending_actions_exn", &RuntimeSymbols::safe_point},
    {"caml_c_call", &RuntimeSymbols::c_call},
    {"caml_memprof_track_interned", &RuntimeSymbols::track_interned},
    {"caml_something_to_do", &RuntimeSymbols::pending_actions},
};
constexpr WantedSymbol kOfOcaml5[] = {
    {"caml_frametable", &RuntimeSymbols::frametable},
    {"caml_state", &RuntimeSymbols::state},
    {"caml_get_callstack", &RuntimeSymbols::capture},
    {"caml_do_pending_actions_res", &RuntimeSymbols::safe_point},
    {"caml_c_call", &RuntimeSymbols::c_call},
    {"caml_process_external_interrupt", &RuntimeSymbols::process_interrupt},
    {"caml_minor_collections_count", &RuntimeSymbols::minor_collections},
    {"caml_major_cycles_completed", &RuntimeSymbols::major_cycles},
    {"caml_compactions_count", &RuntimeSymbols::compactions},
};

absl::Status find_runtime_symbols(const ElfFile& file, std::span<const WantedSymbol> wanted,
                                  RuntimeSymbols& out) {
  std::vector<std::string_view> names;
  for (const WantedSymbol& symbol : wanted) names.push_back(symbol.name);
  const auto found = file.find_symbols(names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!found[i]) return missing(file, names[i]);
    out.*wanted[i].place = *found[i];
  }
  if (file.find_symbol("camlDynlink")) {
    const auto registers = file.find_symbol(out.state.address == 0 ? "caml_register_frametables"
                                                                   : "caml_register_frametable");
    out.register_frametable = registers.value_or(ElfSymbol());
  }
  out.user_callstack = file.find_symbol("caml_get_current_callstack").value_or(ElfSymbol());
  return absl::OkStatus();
}

absl::Status verify_code(const ElfFile& file, const OcamlProgram& program) {
  std::array<std::byte, 64> c_call = {};
  std::array<std::byte, 32> interrupt = {};
  if (!file.read(program.symbols.c_call.address, c_call).ok()) return missing(file, "caml_c_call");
  if (!program.abi.domains) return verify_runtime_abi(program.abi, c_call);
  if (!file.read(program.symbols.process_interrupt.address, interrupt).ok()) {
    return missing(file, "caml_process_external_interrupt");
  }
  return verify_runtime_abi(program.abi, c_call, interrupt);
}

}  // namespace

absl::StatusOr<OcamlProgram> check_program(const ElfFile& file) {
  const auto about = [&](const absl::Status& status) {
    return refuse("({}): {}", file.display_name(), std::string(status.message()));
  };
  if (!file.find_symbol("caml_frametable")) return explain_no_frametable(file);
  if (file.machine() != EM_X86_64) {
    return refuse("is an OCaml program for another processor: only x86-64 is supported yet");
  }
  const std::string version = detect_runtime_version(file);
  absl::StatusOr<RuntimeAbi> abi = runtime_abi_for(version);
  if (!abi.ok()) return about(abi.status());
  OcamlProgram program{.abi = *std::move(abi)};
  if (!file.find_symbol("caml_memprof_start")) {
    return refuse("({}): this OCaml {} runtime was built without Gc.Memprof", file.display_name(),
                  version);
  }
  RETURN_IF_ERROR(find_runtime_symbols(
      file, program.abi.domains ? std::span<const WantedSymbol>(kOfOcaml5) : kOfOcaml4,
      program.symbols));
  if (absl::Status status = verify_code(file, program); !status.ok()) return about(status);
  return program;
}

RuntimeSymbolCheck look_for_symbols(const ElfFile& file) {
  const bool domains = file.find_symbol("caml_domain_spawn").has_value();
  const std::span<const WantedSymbol> wanted =
      domains ? std::span<const WantedSymbol>(kOfOcaml5) : kOfOcaml4;
  RuntimeSymbolCheck check{.wanted = wanted.size() + 1};
  if (!file.find_symbol("caml_memprof_start")) check.missing.emplace_back("caml_memprof_start");
  for (const WantedSymbol& symbol : wanted) {
    if (!file.find_symbol(symbol.name)) check.missing.emplace_back(symbol.name);
  }
  return check;
}

}  // namespace memprofd
