// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/line_edit.h"

#include <algorithm>

#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

// Longer than any filter; limits the effect of a pasted file.
constexpr std::size_t kMaxLength = 4096;

// Requires valid UTF-8.
std::u32string code_points(std::string_view text) {
  std::u32string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) {
      out.back() = out.back() << 6 | (byte & 0x3F);
    } else {
      const int mask = byte < 0x80 ? 0x7F : byte >= 0xF0 ? 0x07 : byte >= 0xE0 ? 0x0F : 0x1F;
      out += static_cast<char32_t>(byte & mask);
    }
  }
  return out;
}

void append_utf8(char32_t c, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

LineEdit::LineEdit(std::string_view text)
    : text_(code_points(printable(text))), at_(text_.size()) {}

void LineEdit::erase_to(std::size_t from) {
  text_.erase(from, at_ - from);
  at_ = from;
}

void LineEdit::press(int key) {
  constexpr int kControlU = 'u' & 0x1F, kControlW = 'w' & 0x1F;
  if (key == kKeyLeft) {
    at_ -= at_ > 0;
  } else if (key == kKeyRight) {
    at_ = std::min(at_ + 1, text_.size());
  } else if (key == kKeyHome) {
    at_ = 0;
  } else if (key == kKeyEnd) {
    at_ = text_.size();
  } else if (key == kKeyBackspace && at_ > 0) {
    erase_to(at_ - 1);
  } else if (key == kKeyDelete && at_ < text_.size()) {
    text_.erase(at_, 1);
  } else if (key == kControlU) {
    erase_to(0);
  } else if (key == kControlW) {
    const std::size_t word = text_.find_last_not_of(U' ', at_ == 0 ? 0 : at_ - 1);
    const std::size_t space = word == text_.npos ? word : text_.find_last_of(U' ', word);
    erase_to(std::min(at_, space == text_.npos ? 0 : space + 1));
  } else if (key >= ' ' && (key < 0x7F || key >= 0xA0) && text_.size() < kMaxLength) {
    text_.insert(at_++, 1, static_cast<char32_t>(key));
  }
}

std::string LineEdit::text() const {
  std::string out;
  for (const char32_t c : text_) append_utf8(c, out);
  return out;
}

}  // namespace memprofd::ctl
