// SPDX-License-Identifier: Apache-2.0
// The lines above the table of `top`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/ctl/top/top_model.h"

namespace memprofd::ctl {

// Pieces of text on a line, separated by two spaces.
using Pieces = std::vector<std::string>;
// Lays the pieces out in at most max_lines lines of this width (0: one line of any width). Pieces
// that do not fit are omitted; a piece that is wider than a line is truncated.
std::vector<std::string> fit_pieces(const Pieces& pieces, std::size_t width, std::size_t max_lines);

Pieces target_pieces(const TopAnswer& answer);   // program and sampling
Pieces program_pieces(const TopAnswer& answer);  // its memory, at the time of the answer
Pieces view_pieces(const TopAnswer& answer);     // the contents of the table
// "LIVE", "PAUSED at 12:00:00 UTC, 4.0 s ago", "RECONNECTING: ...".
std::string state_text(const TopModel& model);
// The current problem in one line, or empty.
std::string problem_text(const TopModel& model);

}  // namespace memprofd::ctl
