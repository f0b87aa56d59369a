// SPDX-License-Identifier: Apache-2.0
// Writes JSON directly as text, for outputs too large to build as a tree.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace memprofd {

// Quotes a text; replaces invalid UTF-8 with U+FFFD.
inline std::string json_string(std::string_view text) {
  using Json = nlohmann::json;
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Appends "[a,b,...]"; put(item, out) appends one item.
template <typename Items, typename Put>
void append_json_array(const Items& items, std::string& out, Put put) {
  out += '[';
  const char* separator = "";
  for (const auto& item : items) {
    out += separator;
    put(item, out);
    separator = ",";
  }
  out += ']';
}

// Appends an array of whole numbers.
template <typename Numbers>
void append_json_numbers(const Numbers& numbers, std::string& out) {
  append_json_array(numbers, out, [](const auto& number, std::string& to) {
    const fmt::format_int digits(number);
    to.append(digits.data(), digits.size());
  });
}

}  // namespace memprofd
