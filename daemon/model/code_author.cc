// SPDX-License-Identifier: Apache-2.0
#include "daemon/model/code_author.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace memprofd {
namespace {

// Units of the compiler's other libraries, whose source has no folder.
constexpr std::array<std::string_view, 12> kCompilerUnits = {
    "Unix",      "UnixLabels", "Thread", "ThreadUnix", "Event",     "Mutex",
    "Condition", "Semaphore",  "Str",    "Dynlink",    "Profiling", "Runtime_events"};

}  // namespace

CodeAuthor author_of(const Location& location) {
  if (is_library_code(location)) return CodeAuthor::kLibrary;
  const std::string_view unit = compilation_unit(location.function, "");
  if (location.file.find('/') == location.file.npos &&
      std::ranges::find(kCompilerUnits, unit) != kCompilerUnits.end()) {
    return CodeAuthor::kPackage;
  }
  for (const std::string_view folder :
       {"/.opam-switch/build/", "/build/reproducible-path/", "/usr/src/", "/lib/ocaml/"}) {
    if (location.file.find(folder) != location.file.npos) return CodeAuthor::kPackage;
  }
  return CodeAuthor::kApplication;
}

}  // namespace memprofd
