// SPDX-License-Identifier: Apache-2.0
// Reads the files that OCaml's compiler writes beside a module: the .cmi with the types of its
// exports, and the .cmt (option -bin-annot) with its whole typed source. Both are marshalled values
// of the compiler's own types (typing/types.mli, typedtree.mli, file_formats/), which change from
// release to release.
//
// CompilerUnit names the few fields and constructors that are read, for the releases whose row
// enables Capability::kTypes. Values are returned as they are in the file; access beyond the end
// yields integers and empty texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/snapshot/types/marshal_graph.h"

namespace memprofd {

// The number in the magic of that release's files: 30 for OCaml 4.13, 35 for 5.3. 0: unknown or not
// supported.
int compiler_format_of(std::string_view ocaml_version);

struct CompilerFile {
  int format = 0;
  std::optional<MarshalGraph> interface;       // name and signature
  std::optional<MarshalGraph> implementation;  // Cmt_format.cmt_infos
  std::optional<MarshalGraph> imports;         // of the interface: (name, digest option) list

  // Parses a .cmi, .cmt or .cmti. kInvalidArgument: it is something else or damaged;
  // kFailedPrecondition: its compiler is unknown.
  static absl::StatusOr<CompilerFile> parse(std::string_view bytes);

  // List of Types.signature_item; empty if there is no interface.
  MarshalValue signature() const;
  // Typedtree.structure; an integer if there is none, as in an interface.
  MarshalValue structure() const;
  // Folders in which the compiler searched for interfaces. Relative ones are below build_folder.
  std::vector<std::string> load_path() const;
  std::string build_folder() const;
  // True if it belongs to a unit of that name whose interface has that digest, and refers to other
  // units only by the interfaces that the program has.
  bool is_of(const std::string& unit, const InterfaceDigests& program) const;
};

}  // namespace memprofd
