// SPDX-License-Identifier: Apache-2.0
// Types of the source for heaps of any user's programs, in a service with more rights than the
// authors of the compiler's files and the readers of the answer. Outside of places that the
// administrator chose, it reads only files that the user who runs the program could read, and for a
// program that has ended files that everyone could read. Parsers are total and limited in memory. A
// file system may never answer, so threads of their own find and read files, with a time limit for
// callers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/snapshot/types/block_names.h"
#include "daemon/snapshot/types/source_modules.h"

namespace memprofd {

// Runs each search in a thread of its own. No further results are returned once all searches
// together have exceeded the time limit. Not thread-safe.
class TimeLimitedFinder {
 public:
  TimeLimitedFinder(FindUnit find, std::chrono::milliseconds patience)
      : find_(std::make_shared<FindUnit>(std::move(find))), left_(patience) {}

  SourceUnit find(const std::string& unit);
  bool has_given_up() const { return left_.count() <= 0; }
  // A search failed for lack of a thread, so that a later attempt may succeed.
  bool lacked_thread() const { return lacked_thread_; }

 private:
  // Threads of this process, including abandoned ones that still wait for a file.
  static constexpr int kMaxAsking = 8;

  // Shared with the thread, which may outlive this, as its results may.
  const std::shared_ptr<FindUnit> find_;
  std::chrono::nanoseconds left_;
  bool lacked_thread_ = false;
};

// Thread-safe.
class GuardedTypes {
 public:
  // Files, or folders with their contents, that are searched before the usual places.
  explicit GuardedTypes(std::vector<std::string> places = {}) : places_(std::move(places)) {}

  // kNotFound: one does not exist.
  absl::Status check() const;
  // While the program runs, files beside it are used only if its path means its own file here, not
  // another one outside of its container.
  void give(HeapImage& image) const;

  // Names of the fields of a running program's units; none for units without files.
  struct Program {
    std::uint32_t pid = 0;
    std::string path;
    std::string ocaml_version;
    InterfaceDigests interfaces;
  };
  struct Unit {
    std::string name;
    std::size_t fields = 0;
  };
  struct Names {
    std::vector<std::vector<FieldName>> of_units;
    bool is_final = true;  // false: no thread was available, ask again later
    // As in TypingResult.
    std::vector<std::string> other_builds;
    bool unverified = false;
  };
  Names names(const Program& program, const std::vector<Unit>& units) const;

 private:
  static constexpr std::chrono::seconds kPatience{10};
  static constexpr std::uint64_t kMaxMemory = 256 << 20;
  static constexpr std::size_t kMaxItems = 500'000;

  const std::vector<std::string> places_;
};

}  // namespace memprofd
