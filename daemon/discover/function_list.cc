// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/function_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <span>
#include <utility>

namespace memprofd {
namespace {

// Maximum amount of code to read: 2,000 OCaml functions have about 500 KB, but in a hostile file
// each function may claim all of the code.
constexpr std::uint64_t kMaxCodeBytes = 4u << 20;

// True for ocamlopt's symbol of a module's function: "camlFoo__bar_12", "camlFoo.bar_12".
bool is_ocaml(std::string_view symbol) {
  constexpr std::string_view kPrefix = "caml";
  return symbol.starts_with(kPrefix) && symbol.size() > kPrefix.size() &&
         std::isupper(static_cast<unsigned char>(symbol[kPrefix.size()])) != 0;
}

FunctionCode read_code(const ElfFile& program, std::uint64_t address, std::uint64_t size) {
  FunctionCode refused;
  refused.why_uncounted = "its code is not understood";
  if (size == 0 || size > kMaxFunctionBytes || !program.offset_of(address)) return refused;
  std::vector<std::byte> code(size);
  if (!program.read(address, code).ok()) return refused;
  const ReadProgram read = [&program](std::uint64_t from, std::span<std::byte> out) {
    return program.read(from, out).ok();
  };
  return read_function_code(code, address, read);
}

}  // namespace

absl::StatusOr<FunctionList> list_functions(ElfFile& program, const FunctionChoice& choice) {
  if (!program.has_symtab() || program.machine() != EM_X86_64) {
    return absl::FailedPreconditionError(
        fmt::format("{} is stripped, so its functions cannot be found; use a program file that has "
                    "its symbol table (.symtab)",
                    program.display_name()));
  }
  FunctionList result;
  program.for_each_function([&](const ElfFunction& function) {
    if (!is_ocaml(function.name)) return;
    std::optional<std::string> name = choice.name_of(function);
    if (!name) return;
    if (++result.matching > choice.most) return;
    result.functions.push_back(
        {.name = *std::move(name), .address = function.address, .size = function.size, .code = {}});
  });
  if (result.matching > choice.most) return result;
  std::uint64_t left = kMaxCodeBytes;
  for (ListedFunction& function : result.functions) {
    if (function.size > left) {
      function.code.why_uncounted = "there is too much code";
      continue;
    }
    left -= function.size;
    function.code = read_code(program, function.address, function.size);
  }
  return result;
}

}  // namespace memprofd
