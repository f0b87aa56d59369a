// SPDX-License-Identifier: Apache-2.0
// A location in a program's source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace memprofd {

struct Location {
  std::string function;            // "Dune__exe__Server.handle", or the symbol, or "0x..."
  std::string file;                // empty: unknown
  std::uint32_t line = 0;          // 1-based; 0: unknown
  std::uint32_t start_column = 0;  // 0-based, half open [start, end)
  std::uint32_t end_column = 0;
  std::string library;  // base name of the ELF file
  friend bool operator==(const Location&, const Location&) = default;

  template <typename H>
  friend H AbslHashValue(H h, const Location& l) {
    return H::combine(std::move(h), l.function, l.file, l.line, l.start_column, l.end_column,
                      l.library);
  }
};

// True if this can be the name of a compilation unit: a capital letter, followed by letters,
// digits, _ and '. kUnitNamePattern is the equivalent regular expression.
bool is_unit_name(std::string_view name);
inline constexpr char kUnitNamePattern[] = "^[A-Z][A-Za-z0-9_']*$";

// The compilation unit of an OCaml function: the part before the first dot, if it can be the name
// of a unit ("Dune__exe__Main.Sub.f" -> "Dune__exe__Main"; the name of a unit's own code has no
// dot). For all other code the ELF file ("caml_alloc_string" -> "server.exe"), which is never the
// name of a unit, or "(no module)". The result points into the arguments.
std::string_view compilation_unit(std::string_view function, std::string_view elf_file);

// True for code that comes with the compiler or the C library: OCaml's standard library (Stdlib and
// its Camlinternal units), the runtime (caml_*), libc and the dynamic linker. All other code
// belongs to the application, including unknown code.
bool is_library_code(const Location& location);

// "server.ml:42", "server.ml", or "" if the file is unknown. Printable. Omits the folder in which a
// package was built, which is the same for all of its files:
// "/home/me/.opam/4.14.1/.opam-switch/build/lwt.5.7.0/_build/default/src/core/lwt.ml" becomes
// "src/core/lwt.ml". The result is the end of the path, so that patterns match it.
std::string location_text(const std::string& file, std::uint32_t line);

}  // namespace memprofd
