// SPDX-License-Identifier: Apache-2.0
#include "daemon/symbolize/symbol_names.h"

#include <cctype>
#include <charconv>

namespace memprofd {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Drops the stamp "_123"; a name without one stays.
std::string_view strip_stamp(std::string_view name) {
  std::size_t end = name.size();
  while (end > 0 && is_digit(name[end - 1])) --end;
  const bool stamped = end < name.size() && end >= 2 && name[end - 1] == '_';
  return stamped ? name.substr(0, end - 1) : name;
}

// Decodes "$2b" as the byte 0x2b.
std::string unescape(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    unsigned char byte = 0;
    const char* const digits = name.data() + i + 1;
    const bool escape = name[i] == '$' && i + 2 < name.size() &&
                        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    text.push_back(escape ? static_cast<char>(byte) : name[i]);
    if (escape) i += 2;
  }
  return text;
}

}  // namespace

std::string demangle(std::string_view symbol) {
  constexpr std::string_view kPrefix = "caml";
  const bool ocaml = symbol.starts_with(kPrefix) && symbol.size() > kPrefix.size() &&
                     std::isupper(static_cast<unsigned char>(symbol[kPrefix.size()])) != 0;
  const std::string_view path = ocaml ? symbol.substr(kPrefix.size()) : std::string_view();
  // Since OCaml 5.1 the separator is a dot.
  std::size_t split = path.find('.');
  std::size_t begin = split + 1;
  if (split == std::string_view::npos) {
    split = path.rfind("__");
    if (split == std::string_view::npos) return std::string(symbol);
    // A function "_f" results in three underscores; the first two are the separator.
    while (split > 0 && path[split - 1] == '_') --split;
    begin = split + 2;
  }
  std::string module(path.substr(0, split));
  const std::string_view function = strip_stamp(path.substr(begin));
  if (function == "entry") return module;
  if (function == "fun") return module + ".(fun)";
  return module + "." + unescape(function);
}

}  // namespace memprofd
