// SPDX-License-Identifier: Apache-2.0
// Values over time in one line of text, and text for terminals that have no UTF-8.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace memprofd::ctl {

enum class Charset { kUtf8, kAscii };

// For kAscii "+-" instead of "±", and "?" for characters without an equivalent.
std::string in_charset(std::string text, Charset charset);

// One character per value; the scale begins at 0, and lower values count as 0.
std::string sparkline(std::span<const double> values, double top, Charset charset = Charset::kUtf8);
// Reduces the values to at most `columns` of them, the means of neighbours; the last one is at the
// right edge.
std::string sparkline_of_width(std::span<const double> values, std::size_t width, Charset charset);

}  // namespace memprofd::ctl
