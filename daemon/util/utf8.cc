// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/utf8.h"

#include <cstdint>

namespace memprofd {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kEllipsis = "\xE2\x80\xA6";

struct Decoded {
  std::uint32_t code_point = 0;
  std::size_t bytes = 0;  // 0: invalid
};

// Rejects overlong forms, surrogates and values above U+10FFFF.
Decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  std::uint32_t code_point = lead & (0x7F >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code_point = code_point << 6 | (byte(i) & 0x3F);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xD800 && code_point < 0xE000;
  if (code_point < kSmallest[length] || surrogate || code_point > 0x10FFFF) return {};
  return {code_point, length};
}

bool is_control(std::uint32_t c) { return c < 0x20 || (c >= 0x7F && c < 0xA0); }

std::string clean(std::string_view text, bool replace_controls) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Decoded next = decode(text);
    if (next.bytes == 0) {
      out += kReplacement;
      text.remove_prefix(1);
      continue;
    }
    if (replace_controls && is_control(next.code_point)) {
      out += '?';
    } else {
      out += text.substr(0, next.bytes);
    }
    text.remove_prefix(next.bytes);
  }
  return out;
}

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

}  // namespace

std::string valid_utf8(std::string_view text) { return clean(text, false); }
std::string printable(std::string_view text) { return clean(text, true); }

std::size_t display_width(std::string_view utf8) {
  std::size_t width = 0;
  for (char c : utf8) width += starts_code_point(c);
  return width;
}

std::string fit_width(std::string_view utf8, std::size_t width, bool keep_end) {
  const std::size_t have = display_width(utf8);
  if (have <= width) return std::string(utf8);
  if (width == 0) return "";
  std::size_t skip = keep_end ? have - (width - 1) : width - 1;
  std::size_t at = 0;
  while (skip > 0 || (at < utf8.size() && !starts_code_point(utf8[at]))) {
    if (starts_code_point(utf8[at])) --skip;
    ++at;
  }
  if (keep_end) return std::string(kEllipsis) + std::string(utf8.substr(at));
  return std::string(utf8.substr(0, at)) + std::string(kEllipsis);
}

}  // namespace memprofd
