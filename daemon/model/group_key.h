// SPDX-License-Identifier: Apache-2.0
// Keys by which blocks can be grouped. A key's row contains everything that the command line, the
// API and the page need.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/model/alloc_class.h"

namespace memprof::v1 {
enum GroupBy : int;
class Filter;
class Site;
}  // namespace memprof::v1

namespace memprofd {

// The table of rows has the same order.
enum class GroupBy {
  kSite,
  kFunction,
  kFile,
  kModule,
  kLibrary,
  kCallstack,
  kThread,
  kDomain,
};

// Parts of a site that all sites of a group share.
struct SiteParts {
  bool function = false;
  bool file = false;
  bool line = false;
  bool unit = false;     // OCaml compilation unit; Site.module
  bool library = false;  // ELF file
};

// A number, such as a thread id, that all blocks of a group share whatever their site.
struct GroupNumber {
  std::uint32_t (*of)(const AllocClass&) = nullptr;  // null: sites form the groups
  const char* site_field = "";                       // uint32 field of the message Site
  // Fields of the message Filter that select exactly one group when set to its number.
  std::array<const char*, 2> filter_fields{};
};

struct GroupRow {
  GroupBy group_by;
  ::memprof::v1::GroupBy proto;
  std::string_view word;    // used by the command line and the API
  std::string_view plural;  // "libraries"
  std::string_view title;   // "Library"
  SiteParts parts{};        // empty for groups by number
  bool whole_callstack = false;
  GroupNumber number{};
  std::string_view nothing{};  // name of the group of sites without this part
  // RE2 for Filter.pattern that matches all sites of a group, and possibly others. {function},
  // {file}, {line}, {module} are replaced by the group's own, quoted. The first pattern whose
  // placeholders the group can all fill is used; without one the group has no pattern.
  std::array<std::string_view, 2> patterns{};
  // RE2 that the group's module must match for the patterns to be valid; empty: any module.
  std::string_view patterns_need{};
  std::optional<GroupBy> below{};  // key by which an expanded group is subdivided

  bool is_number() const { return number.of != nullptr; }
};

// All rows, in the order of GroupBy.
std::span<const GroupRow> group_keys();
const GroupRow& group_row(GroupBy group_by);
// Maps "unspecified" to site. Returns null for a value that the enum does not define.
const GroupRow* find_group_key(::memprof::v1::GroupBy group_by);
// Like find_group_key, for code that must answer every request: returns the row of site for an
// undefined value.
const GroupRow& group_row(::memprof::v1::GroupBy group_by);

// The number that identifies a group in the messages.
std::uint32_t number_of(const ::memprof::v1::Site& group, const GroupRow& key);
void set_number(std::uint32_t number, const GroupRow& key, ::memprof::v1::Site& group);
// Sets the key's filter fields and overwrites their previous values.
void narrow_to_number(std::uint32_t number, const GroupRow& key, ::memprof::v1::Filter& filter);

}  // namespace memprofd
