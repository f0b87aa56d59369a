// SPDX-License-Identifier: Apache-2.0
// Draws `top`: the model and the size of a screen in, lines out.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "daemon/ctl/top/top_model.h"
#include "daemon/ctl/top/top_table.h"

namespace memprofd::ctl {

enum class Paint { kPlain, kBold, kTitle, kSelected, kLive, kPaused, kProblem };

struct PaintedLine {
  std::string text;  // not wider than the screen; UTF-8, or ASCII if requested
  Paint paint = Paint::kPlain;
};

struct ScreenSize {
  std::size_t width = 80, height = 24;
};

struct Picture {
  std::vector<PaintedLine> lines;          // at most the screen's height
  std::size_t list_rows = 1;               // room of the list: TopModel::set_page()
  std::optional<std::size_t> text_cursor;  // column in the last line, while one is edited
};

Picture draw_top(const TopModel& model, ScreenSize size, Charset charset);

// A frame as text for pipes; it ends in a newline and has no empty line.
std::string top_text(const TopAnswer& answer, Charset charset);

}  // namespace memprofd::ctl
