// SPDX-License-Identifier: Apache-2.0
// Module values whose numbers are kept over time because a user has chosen them: each is a place in
// a module until the program ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

class GuardedTypes;
class ValueProgram;
struct NamedValue;
struct Publication;

struct ModuleField {
  std::size_t module = 0;  // in ValueProgram::Layout::modules
  std::uint32_t field = 0;
  std::string name;  // in the source, or "Cache[3]"
};

// Any thread.
class KeptValues {
 public:
  static constexpr std::size_t kMax = 200;

  std::vector<ModuleField> all() const;
  bool empty() const { return all().empty(); }
  // kResourceExhausted, and none is added, when there would be more than kMax.
  absl::Status add(const std::vector<ModuleField>& fields);
  // Forgets the values for whose names is_meant is true.
  void forget(const std::function<bool(const std::string& name)>& is_meant);

 private:
  mutable Mutex mutex_;
  std::vector<ModuleField> fields_ ABSL_GUARDED_BY(mutex_);
};

struct KeepRequest {
  std::string pattern;                  // RE2, found anywhere in the name or that in the source
  const GuardedTypes* types = nullptr;  // as for ValuesRequest
  bool forget = false;                  // stop keeping them; an empty pattern means all
};

// Returns the names that are kept afterwards. kInvalidArgument: an invalid pattern; kNotFound: no
// value has such a name; otherwise the errors of read_values() and KeptValues::add().
absl::StatusOr<std::vector<std::string>> keep_values(ValueProgram& program,
                                                     const KeepRequest& request);

// Adds the values to a report as if the program published them; a reference counts with its
// contents.
void add_kept_values(const std::vector<NamedValue>& values, Publication& report);

}  // namespace memprofd
