// SPDX-License-Identifier: Apache-2.0
// The group keys by which blocks can be grouped. The row of a key has everything that the command
// line, the API and the page need.
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

// In the order of the table.
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

// The parts of a site that all sites of one group share.
struct SiteParts {
  bool function = false;
  bool file = false;
  bool line = false;
  bool unit = false;     // OCaml compilation unit; Site.module
  bool library = false;  // ELF file
};

// A number that the blocks of one group have in common, whatever their site.
struct GroupNumber {
  std::uint32_t (*of)(const AllocClass&) = nullptr;  // null: groups are made of sites
  const char* site_field = "";                       // of the message Site, a uint32
  // The fields of the message Filter that, set to a group's number, let just that group pass.
  std::array<const char*, 2> filter_fields{};
};

struct GroupRow {
  GroupBy group_by;
  ::memprof::v1::GroupBy proto;
  std::string_view word;    // of the command line and the API
  std::string_view plural;  // "libraries"
  std::string_view title;   // "Library"
  SiteParts parts{};        // none: of numbers
  bool whole_callstack = false;
  GroupNumber number{};
  std::string_view nothing{};  // what the group of sites is called that have no such name
  // RE2 for Filter.pattern, which finds all sites of a group, and maybe more. {function},
  // {file}, {line}, {module} are the group's own, quoted. The first counts of which the group
  // has all; without one there is no such pattern.
  std::array<std::string_view, 2> patterns{};
  // RE2 that the group's module has to match for the patterns to hold; empty: any.
  std::string_view patterns_need{};
  std::optional<GroupBy> below{};  // key into which a group is unfolded

  bool is_number() const { return number.of != nullptr; }
};

// All of them, in the order of GroupBy.
std::span<const GroupRow> group_keys();
const GroupRow& group_row(GroupBy group_by);
// Unspecified is site; null: the message's enum has no such value.
const GroupRow* find_group_key(::memprof::v1::GroupBy group_by);
// For code that must answer any request: the row of site for an unknown value.
const GroupRow& group_row(::memprof::v1::GroupBy group_by);

// The number of a group by one, in messages.
std::uint32_t number_of(const ::memprof::v1::Site& group, const GroupRow& key);
void set_number(std::uint32_t number, const GroupRow& key, ::memprof::v1::Site& group);
// Sets the key's fields, whatever was there.
void narrow_to_number(std::uint32_t number, const GroupRow& key, ::memprof::v1::Filter& filter);

}  // namespace memprofd
