// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_screen.h"

#define NCURSES_NOMACROS
#include <ncurses.h>

#include <algorithm>
#include <cstdlib>
#include <cwchar>
#include <string>

namespace memprofd::ctl {
namespace {

constexpr int kEscapeMs = 25;  // time in which an Escape may be the beginning of another key

enum ColorPair : short { kGreen = 1, kYellow, kRed };

struct Attributes {
  attr_t attributes = A_NORMAL;
  short pair = 0;
  bool whole_line = false;
};

Attributes attributes_of(Paint paint) {
  switch (paint) {
    case Paint::kBold:
      return {A_BOLD};
    case Paint::kTitle:
      return {A_UNDERLINE | A_BOLD, 0, true};
    case Paint::kSelected:
      return {A_REVERSE, 0, true};
    case Paint::kLive:
      return {A_BOLD, kGreen};
    case Paint::kPaused:
      return {A_BOLD, kYellow};
    case Paint::kProblem:
      return {A_BOLD, kRed};
    case Paint::kPlain:
      break;
  }
  return {};
}

void start_colors() {
  const char* no_color = std::getenv("NO_COLOR");
  if ((no_color != nullptr && *no_color != '\0') || !::has_colors()) return;
  ::start_color();
  ::use_default_colors();
  ::init_pair(kGreen, COLOR_GREEN, -1);
  ::init_pair(kYellow, COLOR_YELLOW, -1);
  ::init_pair(kRed, COLOR_RED, -1);
}

// At most `width` columns, as the terminal counts them. Names are untrusted: characters without a
// column of their own (marks, directions of writing) become '?'.
std::wstring for_screen(const std::string& text, int width) {
  std::wstring out;
  std::mbstate_t state{};
  int used = 0;
  for (std::size_t at = 0; at < text.size();) {
    wchar_t c = L'?';
    const std::size_t bytes = std::mbrtowc(&c, text.data() + at, text.size() - at, &state);
    const bool valid = bytes != 0 && bytes <= text.size() - at;
    if (!valid) state = {};
    at += valid ? bytes : 1;
    if (!valid || ::wcwidth(c) <= 0) c = L'?';
    used += ::wcwidth(c);
    if (used > width) break;
    out += c;
  }
  return out;
}

int key_of_character(wint_t c) {
  switch (c) {
    case '\r':
    case '\n':
      return kKeyEnter;
    case '\b':
    case 0x7F:
      return kKeyBackspace;
    case '\t':
      return kKeyTab;
    case 0x1B:
      return kKeyEscape;
    default:
      return static_cast<int>(c);
  }
}

int key_of_code(wint_t code) {
  switch (code) {
    case KEY_UP:
      return kKeyUp;
    case KEY_DOWN:
      return kKeyDown;
    case KEY_LEFT:
      return kKeyLeft;
    case KEY_RIGHT:
      return kKeyRight;
    case KEY_PPAGE:
      return kKeyPageUp;
    case KEY_NPAGE:
      return kKeyPageDown;
    case KEY_HOME:
      return kKeyHome;
    case KEY_END:
      return kKeyEnd;
    case KEY_DC:
      return kKeyDelete;
    case KEY_BACKSPACE:
      return kKeyBackspace;
    case KEY_ENTER:
      return kKeyEnter;
    default:  // includes KEY_RESIZE; the size is read again at each frame
      return kKeyResize;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TopScreen>> TopScreen::open() {
  if (::newterm(nullptr, stdout, stdin) == nullptr) {
    return absl::FailedPreconditionError("this terminal cannot show a screen; use --plain");
  }
  std::unique_ptr<TopScreen> screen(new TopScreen);
  ::cbreak();
  ::noecho();
  ::nonl();
  ::set_escdelay(kEscapeMs);
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::curs_set(0);
  start_colors();
  return screen;
}

TopScreen::~TopScreen() { ::endwin(); }

ScreenSize TopScreen::size() const {
  return {static_cast<std::size_t>(getmaxx(stdscr)), static_cast<std::size_t>(getmaxy(stdscr))};
}

void TopScreen::draw(const Picture& picture) {
  ::werase(stdscr);
  const int width = getmaxx(stdscr);
  int row = 0;
  for (const PaintedLine& line : picture.lines) {
    const Attributes paint = attributes_of(line.paint);
    const std::wstring text = for_screen(line.text, width);
    ::mvaddnwstr(row, 0, text.data(), static_cast<int>(text.size()));
    const int columns = paint.whole_line ? -1 : ::wcswidth(text.data(), text.size());
    if (columns != 0) ::mvchgat(row, 0, columns, paint.attributes, paint.pair, nullptr);
    ++row;
  }
  ::curs_set(picture.text_cursor ? 1 : 0);
  if (picture.text_cursor) {
    ::wmove(stdscr, row - 1,
            static_cast<int>(std::min<std::size_t>(*picture.text_cursor, width - 1)));
  }
  ::wrefresh(stdscr);
}

int TopScreen::read_key() {
  wint_t key = 0;
  const int kind = ::get_wch(&key);
  if (kind == KEY_CODE_YES) return key_of_code(key);
  return kind == OK ? key_of_character(key) : kKeyNone;
}

}  // namespace memprofd::ctl
