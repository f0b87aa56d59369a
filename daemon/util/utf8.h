// SPDX-License-Identifier: Apache-2.0
// Names from a target (comm, exe, functions, files) are arbitrary bytes. These
// make them fit for outputs that demand UTF-8 and for terminals.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace memprofd {

// The same text; every byte that is not part of valid UTF-8 becomes U+FFFD.
std::string valid_utf8(std::string_view text);

// valid_utf8 with control characters (C0, DEL, C1) replaced by '?', so that a
// name cannot move the cursor or start another line.
std::string printable(std::string_view text);

// Columns on a terminal, taking one for each code point.
std::size_t display_width(std::string_view utf8);

// At most width columns; a cut text ends in "…" (at its front when keep_end).
std::string fit_width(std::string_view utf8, std::size_t width, bool keep_end = false);

}  // namespace memprofd
