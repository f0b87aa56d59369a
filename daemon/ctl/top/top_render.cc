// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_render.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/ctl/top/top_header.h"
#include "daemon/ctl/top/top_help.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

constexpr std::size_t kBelowHeader = 4;  // minimum number of lines, if there are as many
constexpr std::size_t kTallScreen = 16;  // more lines than are usually needed
constexpr std::size_t kTallList = 10;    // leaves room for frames below the list

// Lines until the screen is full.
class Canvas {
 public:
  Canvas(ScreenSize size, Charset charset) : size_(size), charset_(charset) {}

  std::size_t width() const { return size_.width; }
  std::size_t height() const { return size_.height; }
  std::size_t left() const { return size_.height - std::min(size_.height, lines_.size()); }
  Charset charset() const { return charset_; }

  void add(const std::string& text, Paint paint = Paint::kPlain) {
    if (left() == 0) return;
    std::string line = fit_width(in_charset(text, charset_), size_.width);
    lines_.push_back({in_charset(std::move(line), charset_), paint});
  }
  // Leaves this many lines free at the bottom.
  void fill_to(std::size_t free) {
    while (left() > free) add("");
  }
  // Keeps at most this many lines.
  void cut_to(std::size_t lines) { lines_.resize(std::min(lines_.size(), lines)); }
  std::vector<PaintedLine> take() { return std::move(lines_); }

 private:
  const ScreenSize size_;
  const Charset charset_;
  std::vector<PaintedLine> lines_;
};

Paint state_paint(const TopModel& model) {
  if (!model.problem().ok()) return Paint::kProblem;
  return model.paused() ? Paint::kPaused : Paint::kLive;
}

// A reason for a low rate of a sampled program is not a problem.
Paint problem_paint(const TopModel& model) {
  const pb::Target& target = model.answer().program.target();
  const bool sampled = target.state() == pb::TARGET_STATE_SAMPLING && target.sampling_rate() > 0;
  return model.problem().ok() && sampled ? Paint::kPlain : Paint::kProblem;
}

void draw_header(const TopModel& model, Canvas& canvas) {
  const std::size_t lines = canvas.height() >= kTallScreen ? 2 : 1;
  Pieces first = target_pieces(model.answer());
  first.insert(first.begin(), state_text(model));
  bool is_state = true;
  for (const std::string& line : fit_pieces(first, canvas.width(), lines)) {
    canvas.add(line, is_state ? state_paint(model) : Paint::kPlain);
    is_state = false;
  }
  for (const Pieces& pieces : {program_pieces(model.answer()), view_pieces(model.answer())}) {
    for (const std::string& line : fit_pieces(pieces, canvas.width(), lines)) canvas.add(line);
  }
  if (const std::string problem = problem_text(model); !problem.empty()) {
    canvas.add(problem, problem_paint(model));
  }
  canvas.cut_to(std::max(kBelowHeader + 1, canvas.height()) - kBelowHeader);
}

std::string help_line(const TopModel& model, std::size_t width) {
  Pieces pieces{"q quit", "? help"};
  const auto add = [&](const Pieces& more) {
    pieces.insert(pieces.end(), more.begin(), more.end());
  };
  if (model.overlay() == TopOverlay::kFrames || model.overlay() == TopOverlay::kHelp) {
    pieces = {"q quit", "Esc back", "up down scroll"};
  } else if (model.view_state().view == TopView::kTargets) {
    add({"Enter choose", model.view_state().pid != 0 ? "Esc back" : ""});
  } else {
    add({model.paused() ? "space L live" : "space pause", "[ ] time",
         model.view_state().view == TopView::kSites ? "Enter callstacks" : "Enter frames  Esc back",
         "/ filter", "g group", "< > sort", "w window", "Tab targets"});
  }
  const std::vector<std::string> lines = fit_pieces(pieces, width, 1);
  return lines.empty() ? "" : lines.front();
}

// The last line, and the cursor's column if the line is edited.
std::optional<std::size_t> draw_bottom(const TopModel& model, Canvas& canvas) {
  if (model.overlay() != TopOverlay::kFilter) {
    const bool help = model.message().empty();
    canvas.add(help ? help_line(model, canvas.width()) : model.message(),
               help ? Paint::kTitle : Paint::kBold);
    return std::nullopt;
  }
  if (!model.message().empty()) canvas.add(model.message(), Paint::kProblem);
  const std::string prompt = "filter: ";
  const std::size_t room = canvas.width() - std::min(canvas.width(), prompt.size() + 1);
  // Shows the end of a long line, up to the cursor.
  std::string text = model.edit().text();
  std::size_t at = model.edit().cursor();
  while (at > room) {
    std::size_t bytes = 1;
    while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) ++bytes;
    text.erase(0, bytes);
    --at;
  }
  canvas.add(prompt + text, Paint::kBold);
  return prompt.size() + at;
}

// A title and the rows of the list; the cursor's row is marked.
void draw_rows(const TopModel& model, const std::vector<std::string>& lines, Canvas& canvas) {
  std::size_t row = model.first();
  bool is_title = true;
  for (const std::string& line : lines) {
    if (is_title) {
      canvas.add("  " + line, Paint::kTitle);
      is_title = false;
      continue;
    }
    const bool selected = row++ == model.cursor();
    canvas.add((selected ? "> " : "  ") + line, selected ? Paint::kSelected : Paint::kPlain);
  }
}

void draw_frames(const pb::Site& callstack, std::size_t first, std::size_t room, Canvas& canvas) {
  const std::vector<std::string> frames = frame_lines(callstack);
  std::size_t end = std::min(frames.size(), first + room);
  const bool more = end < frames.size() && room > 1;
  if (more) --end;
  for (std::size_t i = first; i < end; ++i) canvas.add("  " + frames[i]);
  if (more) canvas.add(absl::StrCat("  ... ", frames.size() - end, " more"));
}

// Draws the frames of the callstack under the cursor below a list of callstacks, if there is room.
std::size_t frames_room(const TopModel& model, std::size_t room) {
  const bool wanted = model.answer().view_state.view == TopView::kCallstacks && room >= kTallList;
  return wanted ? room / 2 : 0;
}

// Returns how many rows fit.
std::size_t draw_list(const TopModel& model, std::size_t bottom, Canvas& canvas) {
  const std::size_t room = canvas.left() - std::min(canvas.left(), bottom);
  const std::size_t frames = frames_room(model, room);
  const std::size_t rows = room - frames - std::min<std::size_t>(room - frames, 1);
  const std::size_t width = canvas.width() - std::min<std::size_t>(canvas.width() - 1, 2);
  const TopAnswer& answer = model.answer();
  if (answer.view_state.view == TopView::kTargets) {
    std::vector<std::string> lines = top_targets(answer, width);
    const std::size_t first = std::min(lines.size(), model.first() + 1);
    lines.erase(lines.begin() + 1, lines.begin() + static_cast<std::ptrdiff_t>(first));
    lines.resize(std::min(lines.size(), rows + 1));
    draw_rows(model, lines, canvas);
  } else {
    draw_rows(model, top_table(answer, {model.first(), rows}, width, canvas.charset()), canvas);
  }
  canvas.fill_to(bottom + frames);
  if (frames > 0 && model.selected() != nullptr) {
    canvas.add("  callstack under the cursor, innermost first", Paint::kTitle);
    draw_frames(*model.selected(), 0, frames - 1, canvas);
  }
  return rows;
}

std::size_t draw_help(const TopModel& model, std::size_t bottom, Canvas& canvas) {
  const std::vector<std::string> help = top_help();
  const std::size_t rows = canvas.left() - std::min(canvas.left(), bottom);
  const std::size_t end = std::min(help.size(), model.overlay_first() + rows);
  for (std::size_t i = model.overlay_first(); i < end; ++i) canvas.add(help[i]);
  return rows;
}

std::size_t draw_opened(const TopModel& model, std::size_t bottom, Canvas& canvas) {
  const std::size_t room = canvas.left() - std::min(canvas.left(), bottom + 1);
  canvas.add(absl::StrCat("  ", model.opened().callstack_size(), " frames, innermost first"),
             Paint::kTitle);
  draw_frames(model.opened(), model.overlay_first(), room, canvas);
  return room;
}

}  // namespace

Picture draw_top(const TopModel& model, ScreenSize size, Charset charset) {
  Canvas canvas(size, charset);
  const bool has_message = model.overlay() == TopOverlay::kFilter && !model.message().empty();
  const std::size_t bottom = has_message ? 2 : 1;
  Picture picture;
  if (model.overlay() == TopOverlay::kHelp) {
    picture.list_rows = draw_help(model, bottom, canvas);
  } else {
    draw_header(model, canvas);
    picture.list_rows = model.overlay() == TopOverlay::kFrames ? draw_opened(model, bottom, canvas)
                                                               : draw_list(model, bottom, canvas);
  }
  canvas.fill_to(bottom);
  picture.text_cursor = draw_bottom(model, canvas);
  picture.lines = canvas.take();
  return picture;
}

std::string top_text(const TopAnswer& answer, Charset charset) {
  std::vector<std::string> lines;
  for (const Pieces& pieces :
       {target_pieces(answer), program_pieces(answer), view_pieces(answer)}) {
    for (std::string& line : fit_pieces(pieces, 0, 1)) lines.push_back(std::move(line));
  }
  if (!answer.program.target().message().empty()) {
    lines.push_back(printable(answer.program.target().message()));
  }
  const auto rows = static_cast<std::size_t>(answer.sites.sites_size());
  for (std::string& line : top_table(answer, {0, rows}, 0, charset)) {
    lines.push_back(std::move(line));
  }
  return in_charset(absl::StrJoin(lines, "\n"), charset) + "\n";
}

}  // namespace memprofd::ctl
