// SPDX-License-Identifier: Apache-2.0
// Names from a target (comm, exe, functions, files) are arbitrary bytes. These functions make them
// safe for terminals and for outputs that require UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace memprofd {

// Replaces every byte that is not part of valid UTF-8 with U+FFFD.
std::string valid_utf8(std::string_view text);

// Like valid_utf8, but also replaces control characters (C0, DEL, C1) with '?', so that a name
// cannot move the cursor or start another line.
std::string printable(std::string_view text);

// Number of terminal columns, one per code point.
std::size_t display_width(std::string_view utf8);

// Truncates the text to width columns and marks that with "…" (at its front if keep_end).
std::string fit_width(std::string_view utf8, std::size_t width, bool keep_end = false);

}  // namespace memprofd
