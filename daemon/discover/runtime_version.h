// SPDX-License-Identifier: Apache-2.0
// Determines the OCaml version with which a program was built.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "daemon/discover/elf_file.h"

namespace memprofd {

// Sys.ocaml_version as found in the data of module Stdlib.Sys, where it is a
// static OCaml string. section is 8-byte aligned in the program.
std::optional<std::string> find_version_string(std::span<const std::byte> section);

// Version of the runtime in a program: that of Sys.ocaml_version or, if that module is not linked,
// the series according to the runtime's symbols and code. The program must have caml_frametable.
std::string detect_runtime_version(const ElfFile& program);

}  // namespace memprofd
