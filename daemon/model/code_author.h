// SPDX-License-Identifier: Apache-2.0
// Who wrote code, as far as names and paths of its source show it.
#pragma once

#include <cstdint>

#include "daemon/model/location.h"

namespace memprofd {

enum class CodeAuthor : std::uint8_t {
  kApplication,
  kPackage,  // a package of opam or of the distribution, built in a folder of theirs
  kLibrary,  // is_library_code()
};

CodeAuthor author_of(const Location& location);

}  // namespace memprofd
