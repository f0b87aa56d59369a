// SPDX-License-Identifier: Apache-2.0
// Reads the values of a program's modules from outside while it runs: the program is neither
// stopped nor changed, and needs no preparation. Data that the collector moves meanwhile is read
// again, and never shown.
//
//     Cache[3]  ->  the word that module Cache keeps for its fourth name  ->  what it means
//
// Published values come first (publication.h); those in the heap are read in the same way.
//
// A program whose collector works most of the time leaves less time for reading: values that could
// not be read within a few tries are marked as such.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/values/publication.h"
#include "daemon/values/value.h"
#include "daemon/values/value_program.h"

namespace memprofd {

class ValueWatch;

struct ValuesRequest {
  enum class What {
    kAll,
    kPublished,  // published values, no modules
    kModules,    // module values, no published ones
    kKept,       // kept module values, under their names there
    kFields,     // the module fields below, under their names there, regardless of the pattern
  };
  What what = What::kAll;
  std::vector<ModuleField> fields;
  std::string pattern;  // RE2, found anywhere in the name or that in the source; empty: all
  const GuardedTypes* types =
      nullptr;  // search places for names of the source; null: not requested
  // Includes values that never change: functions, constants.
  bool with_constants = false;
  bool with_contents = false;   // of strings, which may be secret
  std::size_t graph_nodes = 0;  // of all values together; 0: no graphs
  std::size_t limit = 1000;     // of values of modules
  bool by_domain = false;       // points and timers, also for each domain
  // Do not wait for functions that the program evaluates for a new viewer, nor long for memory that
  // does not answer.
  bool in_a_hurry = false;
  // Do not register a viewer, for whom the program would evaluate functions and keep lines.
  bool observes_only = false;
  std::chrono::milliseconds patience{5000};
  // A client that repeats a question about a program gets only what has changed since. Not for
  // graphs or fields. Null: everything is returned.
  ValueWatch* watch = nullptr;
};

struct NamedValue {
  std::size_t place = 0;  // of the module, in ValueProgram::Layout::modules
  std::string module;     // empty: not known
  std::uint32_t field = 0;
  FieldName source;  // in the source
  std::string name() const;
  Value value;
};

struct ValuesAnswer {
  bool publishes = false;          // there is a registry
  Publication report;              // of names that the pattern finds
  std::string why_no_report;       // one line: published values could not be read
  std::vector<NamedValue> values;  // by module's address, then field
  std::vector<std::string> kept;   // names of modules that are kept over time
  std::uint64_t fields = 0;        // of modules that the pattern finds
  std::uint64_t left_out = 0;      // beyond the limit
  std::uint64_t repeated = 0;      // readings that the collector invalidated
  std::uint64_t not_reached = 0;   // fields for which there was no time
  // Names from the source, as in TypingResult.
  std::vector<std::string> other_builds;
  bool unverified = false;
};

// wanted: returns true while a client waits. kNotFound if the program has ended;
// kFailedPrecondition if its heap cannot be read and it publishes no values.
absl::StatusOr<ValuesAnswer> read_values(ValueProgram& program, const ValuesRequest& request,
                                         const std::function<bool()>& wanted);

}  // namespace memprofd
