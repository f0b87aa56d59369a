// SPDX-License-Identifier: Apache-2.0
#include "daemon/model/group_key.h"

#include <algorithm>

#include "daemon/model/location.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

constexpr std::string_view kNoFunction = "(unknown)";

constexpr std::array kGroupKeys = std::to_array<GroupRow>({
    {.group_by = GroupBy::kSite,
     .proto = pb::GROUP_BY_SITE,
     .word = "site",
     .plural = "sites",
     .title = "Site",
     .parts = {.function = true, .file = true, .line = true},
     .nothing = kNoFunction,
     .patterns = {"^{file}:{line}$", "^{function}$"},
     .below = GroupBy::kCallstack},
    {.group_by = GroupBy::kFunction,
     .proto = pb::GROUP_BY_FUNCTION,
     .word = "function",
     .plural = "functions",
     .title = "Function",
     .parts = {.function = true, .file = true},
     .nothing = kNoFunction,
     .patterns = {"^{function}$"},
     .below = GroupBy::kSite},
    {.group_by = GroupBy::kFile,
     .proto = pb::GROUP_BY_FILE,
     .word = "file",
     .plural = "files",
     .title = "File",
     .parts = {.file = true},
     .nothing = "(no file)",
     .patterns = {"^{file}$"},
     .below = GroupBy::kFunction},
    // The top level of a unit is a function with the unit's name. Code that is not OCaml forms
    // groups named by its ELF file, which no pattern finds.
    {.group_by = GroupBy::kModule,
     .proto = pb::GROUP_BY_MODULE,
     .word = "module",
     .plural = "modules",
     .title = "Module",
     .parts = {.unit = true},
     .nothing = "(no module)",
     .patterns = {"^{module}(\\.|$)"},
     .patterns_need = kUnitNamePattern,
     .below = GroupBy::kFunction},
    {.group_by = GroupBy::kLibrary,
     .proto = pb::GROUP_BY_LIBRARY,
     .word = "library",
     .plural = "libraries",
     .title = "Library",
     .parts = {.library = true},
     .nothing = "(no library)",
     .below = GroupBy::kModule},
    {.group_by = GroupBy::kCallstack,
     .proto = pb::GROUP_BY_CALLSTACK,
     .word = "callstack",
     .plural = "callstacks",
     .title = "Callstack",
     .parts = {.function = true, .file = true, .line = true},
     .whole_callstack = true,
     .nothing = kNoFunction,
     .patterns = {"^{function}$"}},
    {.group_by = GroupBy::kThread,
     .proto = pb::GROUP_BY_THREAD,
     .word = "thread",
     .plural = "threads",
     .title = "Thread",
     .number = {[](const AllocClass& c) { return c.thread; }, "thread", {"threads"}},
     .below = GroupBy::kModule},
    {.group_by = GroupBy::kDomain,
     .proto = pb::GROUP_BY_DOMAIN,
     .word = "domain",
     .plural = "domains",
     .title = "Domain",
     .number = {[](const AllocClass& c) -> std::uint32_t { return c.domain; },
                "domain",
                {"domains"}},
     .below = GroupBy::kModule},
});

// A compile error names the value without a row, or with a row in the wrong place.
constexpr bool keys_are_in_order() {
  for (std::size_t i = 0; i < kGroupKeys.size(); ++i) {
    if (kGroupKeys[i].group_by != static_cast<GroupBy>(i)) return false;
  }
  return true;
}
constexpr bool has_key(int group_by) {
  return std::count_if(kGroupKeys.begin(), kGroupKeys.end(),
                       [&](const GroupRow& row) { return row.proto == group_by; }) == 1;
}
constexpr bool all_keys_have_rows() {
  for (int group_by = pb::GroupBy_MIN + 1; group_by <= pb::GroupBy_MAX; ++group_by) {
    if (!has_key(group_by)) return false;
  }
  return true;
}
static_assert(keys_are_in_order(), "rows of kGroupKeys are in the order of GroupBy");
static_assert(all_keys_have_rows(), "each value of the message's GroupBy has one row");

}  // namespace

std::span<const GroupRow> group_keys() { return kGroupKeys; }

const GroupRow& group_row(GroupBy group_by) {
  return kGroupKeys[static_cast<std::size_t>(group_by)];
}

const GroupRow* find_group_key(pb::GroupBy group_by) {
  if (group_by == pb::GROUP_BY_UNSPECIFIED) return &group_row(GroupBy::kSite);
  const auto row = std::find_if(kGroupKeys.begin(), kGroupKeys.end(),
                                [&](const GroupRow& one) { return one.proto == group_by; });
  return row == kGroupKeys.end() ? nullptr : &*row;
}

const GroupRow& group_row(pb::GroupBy group_by) {
  const GroupRow* row = find_group_key(group_by);
  return row == nullptr ? group_row(GroupBy::kSite) : *row;
}

std::uint32_t number_of(const pb::Site& group, const GroupRow& key) {
  const auto* field = group.GetDescriptor()->FindFieldByName(key.number.site_field);
  return group.GetReflection()->GetUInt32(group, field);
}

void set_number(std::uint32_t number, const GroupRow& key, pb::Site& group) {
  const auto* field = group.GetDescriptor()->FindFieldByName(key.number.site_field);
  group.GetReflection()->SetUInt32(&group, field, number);
}

void narrow_to_number(std::uint32_t number, const GroupRow& key, pb::Filter& filter) {
  const auto& reflection = *filter.GetReflection();
  for (const char* name : key.number.filter_fields) {
    if (name == nullptr) continue;
    const auto* field = filter.GetDescriptor()->FindFieldByName(name);
    reflection.ClearField(&filter, field);
    if (field->is_repeated()) {
      reflection.AddUInt32(&filter, field, number);
    } else {
      reflection.SetUInt64(&filter, field, number);
    }
  }
}

}  // namespace memprofd
