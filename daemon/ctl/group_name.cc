// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/group_name.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/model/group_key.h"
#include "daemon/model/location.h"
#include "daemon/query/frame_filter.h"
#include "re2/re2.h"

namespace memprofd::ctl {
namespace {

// A byte that was not UTF-8 in the target is U+FFFD here, and would not match there.
bool can_be_matched(const std::string& text) {
  return !text.empty() && text.find("\uFFFD") == text.npos;
}

// The pattern with the group's parts filled in; empty if the group lacks one of them.
std::string filled(std::string_view pattern, const pb::Site& group) {
  std::string result(pattern);
  const std::pair<const char*, std::string> parts[] = {
      {"{function}", group.function()},
      {"{file}", group.file()},
      {"{line}", group.line() == 0 ? "" : absl::StrCat(group.line())},
      {"{module}", group.module()}};
  for (const auto& [name, text] : parts) {
    if (result.find(name) == result.npos) continue;
    if (!can_be_matched(text)) return "";
    absl::StrReplaceAll({{name, RE2::QuoteMeta(text)}}, &result);
  }
  return result.size() <= Patterns::kMaxBytes ? result : "";
}

// A pattern that matches every site of the group; empty if there is none.
std::string pattern_of(const pb::Site& group, const GroupRow& key) {
  if (!key.patterns_need.empty() &&
      !RE2::FullMatch(group.module(),
                      re2::StringPiece(key.patterns_need.data(), key.patterns_need.size()))) {
    return "";
  }
  for (const std::string_view pattern : key.patterns) {
    if (std::string result = filled(pattern, group); !result.empty()) return result;
  }
  return "";
}

// The frame that names a group by callstack. It may be an outer one, if the inner ones are the
// library's.
pb::Location site_of(const pb::Site& callstack) {
  for (const pb::Location& at : callstack.callstack()) {
    if (at.function() == callstack.function() && at.file() == callstack.file() &&
        at.line() == callstack.line()) {
      return at;
    }
  }
  return {};
}

}  // namespace

pb::Site name_of(const pb::Site& group, pb::GroupBy group_by) {
  const GroupRow& key = group_row(group_by);
  pb::Site name;
  name.set_function(group.function());
  name.set_file(group.file());
  name.set_line(group.line());
  name.set_module(group.module());
  name.set_library(group.library());
  if (key.is_number()) set_number(number_of(group, key), key, name);
  if (key.whole_callstack) *name.mutable_callstack() = group.callstack();
  return name;
}

std::string group_key(const pb::Site& group, pb::GroupBy group_by) {
  return name_of(group, group_by).SerializeAsString();
}

bool in_group(const pb::Site& callstack, const pb::Site& group, pb::GroupBy group_by) {
  const GroupRow& key = group_row(group_by);
  if (key.is_number()) return true;
  if (key.whole_callstack) return group_key(callstack, group_by) == group_key(group, group_by);
  const pb::Location at = site_of(callstack);
  const SiteParts& parts = key.parts;
  return (!parts.function || callstack.function() == group.function()) &&
         (!parts.file || callstack.file() == group.file()) &&
         (!parts.line || callstack.line() == group.line()) &&
         (!parts.unit || compilation_unit(at.function(), at.library()) == group.module()) &&
         (!parts.library || at.library() == group.library());
}

void narrow(const pb::Site& group, pb::GroupBy group_by, pb::Filter& filter) {
  const GroupRow& key = group_row(group_by);
  if (key.is_number()) return narrow_to_number(number_of(group, key), key, filter);
  const std::string pattern = pattern_of(group, key);
  if (filter.pattern().empty()) {
    filter.set_pattern(pattern);
  } else if (!pattern.empty()) {
    filter.add_require(pattern);
  }
}

}  // namespace memprofd::ctl
