// SPDX-License-Identifier: Apache-2.0
// The OCaml programs that run on this machine, and why each is or is not profiled.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/util/threads/mutex.h"

namespace memprofd {

enum class Discovery {
  kProfiled,
  kObserved,   // profiled in observe mode: allocations only
  kWaiting,    // an attach is under way
  kNoRule,     // matches no --name
  kDetached,   // detached on request
  kTooYoung,   // its runtime has not started yet
  kBytecode,   // not compiled by ocamlopt
  kVersion,    // an OCaml release that is not supported
  kNoSymbols,  // symbols were stripped
  kSeccomp,    // a filter forbids the injection
  kLoader,     // started through ld.so, so /proc names the file of ld.so
  kNotOcaml,   // matches a rule, but is not an OCaml program
  kRefused,    // refused for another reason, see DiscoveredProgram::reason
};
inline constexpr std::array<std::string_view, 13> kDiscoveryNames{
    "profiled", "observed",   "waiting", "no_rule", "detached",  "too_young", "bytecode",
    "version",  "no_symbols", "seccomp", "ld_so",   "not_ocaml", "refused"};
constexpr std::string_view discovery_name(Discovery outcome) {
  return kDiscoveryNames[static_cast<std::size_t>(outcome)];
}

struct DiscoveredProgram {
  int pid = 0;
  std::uint64_t start_time_ticks = 0;
  std::string comm;
  std::string exe;  // path inside the process's mount namespace
  Discovery outcome = Discovery::kWaiting;
  std::string reason;  // one line; may be empty
  std::string rule;    // the matching pattern of --name; empty: none matches
};

struct Discoveries {
  static constexpr std::size_t kMaxPrograms = 1000;

  std::vector<DiscoveredProgram> programs;  // ordered by pid, at most kMaxPrograms
  // Number of programs by outcome, including programs without a row.
  std::array<std::uint64_t, kDiscoveryNames.size()> counts{};
  std::uint64_t left_out = 0;      // programs without a row
  std::uint64_t unread_files = 0;  // executables that were not examined: too many, or their file
                                   // system hangs
  // Programs that matched a rule but ended before they were profiled, since memprofd started.
  std::uint64_t ended_early = 0;

  void add(DiscoveredProgram program) {
    ++counts[static_cast<std::size_t>(program.outcome)];
    if (programs.size() < kMaxPrograms) {
      programs.push_back(std::move(program));
    } else {
      ++left_out;
    }
  }
};

// The latest discoveries. The discovery thread sets them, other threads read them. Thread-safe.
class DiscoveryStore {
 public:
  void set(Discoveries found) {
    const MutexLock lock(mutex_);
    found_ = std::move(found);
  }
  Discoveries get() const {
    const MutexLock lock(mutex_);
    return found_;
  }

 private:
  mutable Mutex mutex_;
  Discoveries found_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
