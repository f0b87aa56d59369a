// SPDX-License-Identifier: Apache-2.0
// Keys of a terminal, and a line of text that is edited with them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace memprofd::ctl {

// A key is a character's code point, or one of these.
enum Key : int {
  kKeyNone = -1,
  kKeyUp = -2,
  kKeyDown = -3,
  kKeyLeft = -4,
  kKeyRight = -5,
  kKeyPageUp = -6,
  kKeyPageDown = -7,
  kKeyHome = -8,
  kKeyEnd = -9,
  kKeyDelete = -10,
  kKeyBackspace = -11,
  kKeyEnter = -12,
  kKeyEscape = -13,
  kKeyTab = -14,
  kKeyResize = -15,
};

class LineEdit {
 public:
  // Sets the text (UTF-8), with the cursor at its end.
  explicit LineEdit(std::string_view text = "");
  // Handles characters, moves, deletions, ^U (everything before the cursor) and ^W (a word);
  // ignores other keys.
  void press(int key);
  std::string text() const;
  std::size_t cursor() const { return at_; }  // in code points

 private:
  void erase_to(std::size_t from);

  std::u32string text_;
  std::size_t at_;
};

}  // namespace memprofd::ctl
