// SPDX-License-Identifier: Apache-2.0
// Files of OCaml's compiler: with any contents, each block of a heap gets a valid type.
#include <fstream>
#include <iterator>

#include "daemon/snapshot/types/assign_types.h"
#include "daemon/snapshot/types/compiler_file.h"
#include "daemon/snapshot/types/linked_units.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/kit/image_builder.h"
#include "tests/kit/marshal_bytes.h"

namespace memprofd::fuzz {
namespace {

const std::string kDigest(kDigestBytes, 'q');

// Some blocks of each tag and size that hold each other, are held by a module, and were sampled
// where Queue.create allocates.
const HeapImage& heap_with_all_shapes() {
  static const HeapImage heap = [] {
    ImageBuilder builder;
    const auto site = builder.site({{.function = "Queue.create",
                                     .file = "queue.ml",
                                     .line = 29,
                                     .start_column = 16,
                                     .end_column = 61}});
    for (std::uint32_t i = 0; i < 96; ++i) {
      builder.block(1 + i % 6, i % 8 == 0 ? 247 + i / 8 % 9 : i % 3);
      if (i % 2 == 0) builder.global("Queue", i, i);
      builder.sample(i, 1, site);
    }
    for (std::uint32_t i = 0; i < 96; ++i) {
      for (std::uint32_t field = 0; field < 1 + i % 6; ++field) {
        if (i % 8 != 0) builder.point(i, field, (i * 7 + field * 5) % 96);
      }
    }
    return builder.build();
  }();
  return heap;
}

bool read_types(std::string_view bytes) {
  const InterfaceDigests units = read_linked_units(bytes);
  for (const auto& [unit, digest] : units) {
    require(!unit.empty() && digest.size() == kDigestBytes, "a unit without a digest");
  }
  const auto file = CompilerFile::parse(bytes);
  if (!file.ok()) return !units.empty();
  (void)file->is_of("Queue", {{"Queue", kDigest}});
  HeapImage heap = heap_with_all_shapes();
  // The file is every unit that it names.
  assign_types(heap, [&](const std::string&) {
    return SourceUnit{.interface = file->interface ? &*file : nullptr,
                      .implementation = file->implementation ? &*file : nullptr};
  });
  for (std::uint32_t block = 0; block < heap.blocks(); ++block) {
    require(heap.shape_of[block] < heap.shapes.size(), "no such shape");
    require(heap.type(block) < heap.types.size(), "no such type");
  }
  (void)file->load_path();
  return true;
}

// Interface with type t = { first : string; rest : t list }, and a value of it.
std::string small_interface() {
  using namespace marshal;
  const auto type = [](const std::string& what) {
    return block(0, {what, integer(0), integer(0), integer(0)});
  };
  const auto ident = [](const char* name, int stamp) {
    return block(0, {text(name), integer(stamp)});
  };
  const std::string constant =
      type(block(3, {block(0, {block(3, {text("string"), integer(1)})}), integer(0), integer(0)}));
  const std::string label = block(0, {ident("first", 8), integer(0), constant});
  const std::string record = block(1, {list({label}), integer(0)});
  const std::string declaration =
      block(0, {integer(0), integer(0), record, integer(0), integer(0)});
  const std::string value =
      block(0, {type(block(3, {block(0, {ident("t", 5)}), integer(0), integer(0)})), integer(0)});
  return interface_file("Queue",
                        list({block(1, {ident("t", 5), declaration}),
                              block(0, {ident("all", 6), value, integer(0)})}),
                        list({import_of("Queue", kDigest)}));
}

// Units of a program.
std::string small_list() {
  using namespace marshal;
  return marshalled(list({linked_unit("Queue", kDigest), linked_unit("CamlinternalLazy", "")}));
}

// Implementation with a cell of type string list.
std::string small_implementation() {
  using namespace marshal;
  const auto type = [](const std::string& name, const std::string& arguments) {
    const std::string path = block(0, {block(3, {text(name), integer(1)})});
    return block(0, {block(3, {path, arguments, integer(0)}), integer(0), integer(0), integer(0)});
  };
  const auto position = [](int at) {
    return block(0, {text("queue.ml"), integer(29), integer(0), integer(at)});
  };
  const std::string place = block(0, {position(16), position(61), integer(0)});
  const std::string cell = block(8, {integer(0), integer(0), integer(0)});
  const std::string made =
      block(0, {cell, place, integer(0), type("list", list({type("string", integer(0))})),
                integer(0), integer(0)});
  const std::string structure = block(0, {list({block(0, {made})}), list({}), integer(0)});
  return "Caml1999T035" + marshalled(block(0, {text("Queue"), block(1, {structure})}));
}

// Adds files of the machine's own compiler.
std::vector<std::string> type_seeds() {
  std::vector<std::string> files{small_interface(), small_implementation(), small_list()};
  for (const char* name : {"queue.cmt", "stdlib__Queue.cmt", "stdlib__Queue.cmi",
                           "stdlib__Stack.cmt", "stdlib__Hashtbl.cmi", "stdlib__Map.cmt"}) {
    std::ifstream file(std::string("/usr/lib/ocaml/") + name, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    if (CompilerFile::parse(bytes).ok()) files.push_back(std::move(bytes));
  }
  return files;
}

const Add added_types("types", {&read_types, &type_seeds});

}  // namespace
}  // namespace memprofd::fuzz
