// SPDX-License-Identifier: Apache-2.0
// OCaml names of linker symbols.
#pragma once

#include <string>
#include <string_view>

namespace memprofd {

// The name that debuginfo would give the function behind an ocamlopt symbol:
//   camlFoo__bar_123                -> Foo.bar
//   camlDune__exe__Server__get_12   -> Dune__exe__Server.get
//   camlFoo__fun_304                -> Foo.(fun)
//   camlFoo__$2b$21_7               -> Foo.+!
//   camlFoo__entry                  -> Foo
//   camlStdlib__Digest.file_12      -> Stdlib__Digest.file, since OCaml 5.1
// Any other symbol is returned as it is.
std::string demangle(std::string_view symbol);

}  // namespace memprofd
