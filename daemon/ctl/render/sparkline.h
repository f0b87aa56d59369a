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

// A character a value, from 0 (and below) to the top.
std::string sparkline(std::span<const double> values, double top, Charset charset = Charset::kUtf8);
// As many values as there are columns at most: the means of neighbours when there are
// more; the last one ends at the right edge.
std::string sparkline_of_width(std::span<const double> values, std::size_t width, Charset charset);

}  // namespace memprofd::ctl
