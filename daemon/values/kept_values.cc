// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/kept_values.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/query/frame_filter.h"
#include "daemon/util/status_macros.h"
#include "daemon/values/read_values.h"

namespace memprofd {
namespace {

absl::Status keep(ValueProgram& program, const KeepRequest& asked) {
  const std::string& pattern = asked.pattern;
  const ValuesRequest request{.what = ValuesRequest::What::kModules,
                              .pattern = pattern,
                              .types = asked.types,
                              .limit = KeptValues::kMax + 1};
  ASSIGN_OR_RETURN(const ValuesAnswer found, read_values(program, request, [] { return true; }));
  if (found.values.empty()) {
    return absl::NotFoundError(absl::StrCat("no value of a module of pid ", program.pid(),
                                            " is called '", pattern,
                                            "'; `memprofctl values` lists them"));
  }
  std::vector<ModuleField> fields;
  for (const NamedValue& named : found.values) {
    const bool is_named = !named.source.name.empty();
    fields.push_back({named.place, named.field, is_named ? named.source.name : named.name()});
  }
  return program.kept().add(fields);
}

}  // namespace

std::vector<ModuleField> KeptValues::all() const {
  const MutexLock lock(mutex_);
  return fields_;
}

absl::Status KeptValues::add(const std::vector<ModuleField>& fields) {
  const MutexLock lock(mutex_);
  std::vector<ModuleField> all = fields_;
  for (const ModuleField& one : fields) {
    const bool is_there = std::any_of(all.begin(), all.end(), [&](const ModuleField& other) {
      return other.module == one.module && other.field == one.field;
    });
    if (!is_there) all.push_back(one);
  }
  if (all.size() > kMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the selection exceeds the limit of ", kMax,
                     " kept module values: select fewer with a pattern"));
  }
  fields_ = std::move(all);
  return absl::OkStatus();
}

void KeptValues::forget(const std::function<bool(const std::string& name)>& is_meant) {
  const MutexLock lock(mutex_);
  std::erase_if(fields_, [&](const ModuleField& one) { return is_meant(one.name); });
}

absl::StatusOr<std::vector<std::string>> keep_values(ValueProgram& program,
                                                     const KeepRequest& request) {
  ASSIGN_OR_RETURN(const Patterns patterns, Patterns::compile("name", {request.pattern}));
  if (request.forget) {
    program.kept().forget(
        [&](const std::string& name) { return patterns.empty() || patterns.any_in(name); });
  } else if (patterns.empty()) {
    return absl::InvalidArgumentError("missing pattern: select the values to keep");
  } else {
    RETURN_IF_ERROR(keep(program, request));
  }
  std::vector<std::string> names;
  for (const ModuleField& one : program.kept().all()) names.push_back(one.name);
  return names;
}

void add_kept_values(const std::vector<NamedValue>& values, Publication& report) {
  for (const NamedValue& named : values) {
    if (named.value.is_changing) continue;
    PublishedValue& one = report.all.emplace_back();
    one.kind = PublishedValue::Kind::kValue;
    one.name = named.source.name.empty() ? named.name() : named.source.name;
    const Value* held = &named.value;
    while (held->kind == ValueKind::kReference && held->fields.size() == 1) {
      held = &held->fields.front();
    }
    one.value = *held;
  }
}

}  // namespace memprofd
