// SPDX-License-Identifier: Apache-2.0
// The compilation units that a native program was linked with, each with the digest of its
// interface: ocamlopt (since 4.04) puts a marshalled list of them into the data of the program, as
// the OCaml string caml_globals_map. A stripped static program has the string without the symbol.
// The program may be hostile: every read is bounded, and a list that is not well formed is none.
#pragma once

#include <string_view>

#include "daemon/discover/elf_file.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// Bytes of a marshalled list that is read: a list of 400 units has 24 kB.
inline constexpr std::size_t kMaxListBytes = 16 << 20;

// Found by the symbol, otherwise by the shape of the string in the data. Empty: the program has
// none.
InterfaceDigests interfaces_of(const ElfFile& program);

// Decodes a (name, digest of the interface option, digest of the implementation option, symbols)
// list at the start of the bytes. Omits units without a digest. Empty: not such a list.
InterfaceDigests read_linked_units(std::string_view bytes);

}  // namespace memprofd
