// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>
#include <vector>

namespace memprofd::ctl {
namespace {

constexpr std::array<const char*, 8> kBars{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<const char*, 8> kAsciiBars{"_", ".", ":", "-", "=", "+", "*", "#"};

const char* ascii_of(std::string_view character) {
  if (character == "±") return "+-";
  if (character == "…") return "~";
  if (character == "µ") return "u";
  return "?";
}

}  // namespace

std::string in_charset(std::string text, Charset charset) {
  if (charset == Charset::kUtf8) return text;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    const bool is_ascii = static_cast<unsigned char>(text[at]) < 0x80;
    out += is_ascii ? text.substr(at, end - at)
                    : ascii_of(std::string_view(text).substr(at, end - at));
    at = end;
  }
  return out;
}

std::string sparkline(std::span<const double> values, double top, Charset charset) {
  const auto& bars = charset == Charset::kUtf8 ? kBars : kAsciiBars;
  std::string out;
  for (const double value : values) {
    const double share = top > 0 && value > 0 ? std::min(1.0, value / top) : 0;
    out += bars[static_cast<std::size_t>(std::lround(share * 7))];
  }
  return out;
}

std::string sparkline_of_width(std::span<const double> values, std::size_t width, Charset charset) {
  if (values.empty() || width == 0) return std::string(width, ' ');
  const std::size_t together = (values.size() + width - 1) / width;
  std::vector<double> means;
  // Counts from the end, so that the oldest points are omitted if they do not fill a column.
  for (std::size_t end = values.size(); end > 0; end -= std::min(end, together)) {
    const auto part = values.subspan(end - std::min(end, together), std::min(end, together));
    means.push_back(std::accumulate(part.begin(), part.end(), 0.0) /
                    static_cast<double>(part.size()));
  }
  std::reverse(means.begin(), means.end());
  const double top = *std::max_element(means.begin(), means.end());
  return std::string(width - means.size(), ' ') + sparkline(means, top, charset);
}

}  // namespace memprofd::ctl
