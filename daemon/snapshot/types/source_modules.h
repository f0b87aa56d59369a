// SPDX-License-Identifier: Apache-2.0
// Names of a program's source: which declaration a path means where it is written. Modules are
// looked into behind their signatures, because a heap does not care what is abstract:
//
//     module Ids = Map.Make (Int)         Ids.t is declared in map.ml, in the body of Make, with
//     let all : string Ids.t ref = ...    Ord bound to Int: a module "Map.Make(Int)" of its own
//
// A module is made for each structure, signature and application of a functor, once. It knows its
// items by name, for paths from outside, and by the compiler's stamps, for those from inside. What
// cannot be found is answered with kNoModule or null, never guessed. Not to be used by two threads.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/snapshot/types/compiler_file.h"

namespace memprofd {

// The files of one compilation unit; null if absent.
struct SourceUnit {
  const CompilerFile* interface = nullptr;
  const CompilerFile* implementation = nullptr;
  bool is_of_other_build = false;  // the only files of that name are of another build
  bool is_unverified = false;      // no evidence whether the files belong to the program's build
};
using FindUnit = std::function<SourceUnit(const std::string& name)>;

class SourceModules {
 public:
  using ModuleId = std::uint32_t;
  static constexpr ModuleId kNoModule = 0;

  struct Declaration {
    std::string name;     // "t"
    ModuleId module = 0;  // the module that contains it, in which its paths are resolved
    MarshalValue what;    // Types.type_declaration
  };
  // A field of a module's block at run time, in the order of the block.
  struct Field {
    enum class What : std::uint8_t { kValue, kModule, kException, kOther };
    What what = What::kOther;
    std::string name;
    std::int64_t stamp = 0;
    MarshalValue type;  // type_expr of a value, module_type of a module
  };

  static constexpr std::size_t kMaxItems = 4'000'000;

  explicit SourceModules(FindUnit find, std::size_t most_items = kMaxItems)
      : find_(std::move(find)), most_items_(most_items) {}
  SourceModules(const SourceModules&) = delete;
  SourceModules& operator=(const SourceModules&) = delete;

  // The implementation of a unit; otherwise its exports.
  ModuleId unit(const std::string& name);
  // The exports of a unit, backed by its implementation.
  ModuleId interface_of(const std::string& name);
  // The module that an item of a module's signature describes.
  ModuleId module_in(ModuleId module, const Field& field);

  const Declaration* type_at(MarshalValue path, ModuleId from);
  // The same type in its implementation, if the declaration is abstract.
  const Declaration* behind(const Declaration& declaration);
  const Declaration* type_named(ModuleId module, const std::string& name);

  // Fields of a module that is a structure or has a signature.
  std::vector<Field> fields_of(ModuleId module);
  // All fields of the structures nested in a structure, in order; those of an inner structure
  // follow the field of its module.
  struct NestedField {
    ModuleId module = 0;
    Field field;
  };
  std::vector<NestedField> nested_fields_of(ModuleId module);
  // The structures that a unit is written in, by the modules that they make: its own, those of
  // modules in it, and the bodies of functors, which are generic.
  std::map<ModuleId, MarshalValue> structures_of(const std::string& unit);
  bool is_functor(ModuleId module) const { return modules_[module].is_functor; }
  // True in the body of an unapplied functor: "Map.Make(_)".
  bool is_generic(ModuleId module) const { return modules_[module].is_generic; }
  // "Demo_server.Sessions", "Map.Make(Int)".
  const std::string& name_of(ModuleId module) const { return modules_[module].name; }
  int format_of(ModuleId module) const { return modules_[module].format; }
  // Requested units whose files belong to another build, by their names in the source.
  const std::set<std::string>& other_builds() const { return other_builds_; }
  // True if files were used without evidence that they belong to the program's build.
  bool has_unverified() const { return has_unverified_; }

  // "Hashtbl.t" for a type t of Stdlib__Hashtbl.
  static std::string unit_text(const std::string& unit);

 private:
  static constexpr int kMaxDepth = 100;  // of modules that are looked up for another
  static constexpr std::size_t kMaxModules = 200'000;

  enum class Kind : std::uint8_t { kType, kModule, kModuleType };
  struct Item {
    std::string name;
    std::int64_t stamp = 0;
    ModuleId scope = 0;       // where its parts are looked up
    MarshalValue declared;    // type_declaration, module_type or (of a kModuleType) the same
    MarshalValue expression;  // Typedtree.module_expr; an integer: not known
    MarshalValue included;    // the same, of the include that brings it
    bool is_made = false, is_being_made = false;
    ModuleId module = 0;  // once made
    Declaration declaration;
  };
  struct Module {
    ModuleId parent = 0;
    ModuleId behind = 0;  // of a signature: the module that has it
    std::string name;
    int format = 0;
    bool is_functor = false;
    bool is_generic = false;
    bool body_is_type = false;
    MarshalValue parameter, body;  // of a functor: Ident.t option, module_expr or module_type
    MarshalValue signature;        // list of signature_item
    std::map<std::pair<Kind, std::string>, Item*> by_name;
    std::map<std::int64_t, Item*> by_stamp;
  };
  using Key = std::pair<std::uint64_t, std::uint64_t>;

  SourceUnit find(const std::string& unit);
  ModuleId new_module(ModuleId parent, std::string name, int format);
  Item& add_item(ModuleId module, Kind kind, MarshalValue ident);
  void add_signature(ModuleId module, MarshalValue signature);
  void add_structure(ModuleId module, MarshalValue structure);
  void add_expression(ModuleId module, MarshalValue binding);
  void add_included(ModuleId module, MarshalValue include);

  ModuleId of_expression(MarshalValue expression, ModuleId scope, const std::string& name);
  ModuleId of_type(MarshalValue type, ModuleId scope, const std::string& name, ModuleId behind);
  ModuleId of_structure(MarshalValue structure, ModuleId scope, const std::string& name);
  ModuleId of_signature(MarshalValue signature, ModuleId scope, const std::string& name,
                        ModuleId behind);
  ModuleId functor(MarshalValue parameter, MarshalValue body, bool body_is_type, ModuleId scope,
                   const std::string& name);
  ModuleId apply(ModuleId functor, ModuleId argument);
  ModuleId module_of(Item& item);
  void add_structures(MarshalValue expression, ModuleId scope, const std::string& name,
                      std::map<ModuleId, MarshalValue>& found);
  void add_structures_in(ModuleId module, std::map<ModuleId, MarshalValue>& found);
  void add_nested_in(ModuleId module, const Field& field, std::vector<NestedField>& fields);
  ModuleId module_at(MarshalValue path, ModuleId from);
  Item* item_at(Kind kind, MarshalValue path, ModuleId from);
  Item* item_named(Kind kind, ModuleId module, const std::string& name);
  Item* item_by_stamp(MarshalValue ident, ModuleId from);
  std::string name_below(ModuleId module, std::string_view name) const;

  FindUnit find_;
  std::set<std::string> other_builds_;
  bool has_unverified_ = false;
  const std::size_t most_items_;
  int depth_ = 0;
  std::deque<Module> modules_{1};
  std::deque<Item> items_;
  absl::flat_hash_map<std::string, ModuleId> units_, interfaces_;
  // Keyed by node and scope; by functor and argument.
  absl::flat_hash_map<Key, ModuleId> structures_, applications_;
  absl::flat_hash_map<std::pair<Key, ModuleId>, ModuleId> signatures_;
};

// These two read an Ident.t.
std::string_view ident_name(MarshalValue ident);
std::int64_t ident_stamp(MarshalValue ident);
bool is_predefined(MarshalValue ident);

}  // namespace memprofd
