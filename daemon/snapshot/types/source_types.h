// SPDX-License-Identifier: Apache-2.0
// Types of a program's source, each once, and what blocks their values are:
//
//     type order = { id : int; lines : string list }     one kind: tag 0, two fields, of which the
//                                                        second has type string list
//     type shape = Dot | Circle of float | Box of box    two kinds: tag 0, a float; tag 1, a box
//
// A type is a declaration and its arguments, so that string list and int list are two. What is not
// known (a type variable, an existential, a type whose declaration is not at hand) is kUnknown: its
// values are never guessed. Not to be used by two threads.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/snapshot/types/source_modules.h"

namespace memprofd {

using TypeId = std::uint32_t;

// A kind of block that represents values of a type.
struct BlockKind {
  static constexpr std::uint64_t kAnySize = ~std::uint64_t{0};
  static constexpr int kAnyTag = -1;

  int tag = 0;
  std::uint64_t fields = 0;              // words without the header
  std::string name;                      // "Shop.order", "Shop.shape.Circle"
  std::string custom = {};               // identifier that a custom block has to have; empty: any
  std::vector<TypeId> types = {};        // of the fields; shorter: the others are not known
  std::vector<std::string> labels = {};  // of a record's fields
  TypeId every = 0;                      // of each field, of an array
  bool is_array = false, is_function = false;
  bool has_other_names = false;  // a module, an exception: a block may be of several such types
  std::uint32_t number = 0;      // whatever the owner of the kinds counts
};

class SourceTypes {
 public:
  using ModuleId = SourceModules::ModuleId;
  static constexpr TypeId kUnknown = 0;
  static constexpr std::size_t kMaxTypes = 1 << 20;

  explicit SourceTypes(SourceModules& modules) : modules_(modules) {}

  // The type that a Types.type_expr denotes where it is written, in a module.
  TypeId of_expression(MarshalValue expression, ModuleId scope);
  // The type of a module's block at run time, or of a functor's closure.
  TypeId of_module(ModuleId module);
  TypeId of_field(ModuleId module, const SourceModules::Field& field);

  std::deque<BlockKind>& kinds(TypeId type);
  // A computed lazy value may be a block of this type instead.
  bool is_lazy(TypeId type) const { return types_[known_by(type)].head == "lazy_t"; }
  TypeId instead_of(TypeId type) const { return types_[known_by(type)].instead; }
  // True if part of the type is unknown. If a block is reached in two ways, the other type may be
  // more precise.
  bool is_vague(TypeId type) const { return types_[type].is_vague; }
  const std::string& text(TypeId type) const { return types_[type].text; }

 private:
  using Declaration = SourceModules::Declaration;
  using Bound = std::vector<std::pair<std::uint64_t, TypeId>>;  // variables
  static constexpr int kMaxDepth = 40;                          // of a type in types
  static constexpr int kMaxParts = 10'000;                      // of one type, and of its expansion
  static constexpr std::size_t kMaxText = 200;

  enum class What : std::uint8_t {
    kUnknown,
    kPredefined,
    kRecord,
    kVariant,
    kOpen,
    kAbstract,
    kTuple,
    kFunction,
    kPolymorphic,
    kObject,
    kPackage,
    kModule,
    kItself  // an abbreviation: instead is its expansion
  };
  struct Type {
    What what = What::kUnknown;
    TypeId number = kUnknown;
    std::string text = "_";
    std::string head = {};  // of a predefined type: "list"
    std::vector<TypeId> arguments = {};
    const Declaration* declaration = nullptr;
    ModuleId module = 0;
    TypeId instead = kUnknown;
    bool is_vague = true;
    bool has_kinds = false;
    std::deque<BlockKind> kinds = {};
  };
  struct Scope {
    ModuleId module = 0;
    const Bound* bound = nullptr;
    int depth = 0;
  };

  TypeId convert(MarshalValue expression, const Scope& scope);
  std::vector<TypeId> convert_all(MarshalValue list, const Scope& scope);
  TypeId function(MarshalValue arrow, const Scope& scope);
  TypeId tuple(MarshalValue list, const Scope& scope);
  TypeId object(MarshalValue what);
  TypeId variable(MarshalValue expression, const Scope& scope) const;
  TypeId of_path(MarshalValue constructor, const Scope& scope);
  TypeId predefined(const std::string& name, std::vector<TypeId> arguments);
  TypeId declared(const Declaration& declaration, std::vector<TypeId> arguments, int depth);
  TypeId expanded(const Declaration& declaration, const std::vector<TypeId>& arguments,
                  MarshalValue manifest, const Scope& scope);
  TypeId known_by(TypeId type) const {
    return types_[type].what == What::kItself ? types_[type].instead : type;
  }
  TypeId abstract(const Declaration& declaration, std::vector<TypeId> arguments, int depth);
  TypeId polymorphic(MarshalValue row, const Scope& scope);
  TypeId intern(Type type, const std::string& key);
  std::string arguments_text(const std::vector<TypeId>& arguments) const;
  std::string part_text(TypeId type) const;
  Bound bind(const Declaration& declaration, const std::vector<TypeId>& arguments) const;
  std::string full_name(const Declaration& declaration) const;

  void make_kinds(Type& type);
  void add_kind(Type& type, BlockKind kind) { type.kinds.push_back(std::move(kind)); }
  void make_predefined(Type& type);
  void make_record(Type& type);
  void make_variant(Type& type);
  void add_constructor(Type& type, MarshalValue constructor, int tag);
  void add_labels(BlockKind& kind, MarshalValue labels, const Scope& scope);
  void make_module(Type& type);

  SourceModules& modules_;
  // An abbreviation with its arguments, during its expansion and after.
  struct Expansion {
    bool is_done = false;
    TypeId type = kUnknown;
    TypeId itself = kUnknown;  // where it is met in itself
  };

  int parts_left_ = kMaxParts;
  int cuts_ = 0;  // types that were too deep or had too many parts
  absl::flat_hash_map<std::string, Expansion> expansions_;
  std::deque<Type> types_{1};
  absl::flat_hash_map<std::string, TypeId> known_;
};

}  // namespace memprofd
