// SPDX-License-Identifier: Apache-2.0
// JSON written as text, for outputs too large to be built as a tree first.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace memprofd {

// The text in quotes; invalid UTF-8 becomes U+FFFD.
inline std::string json_string(std::string_view text) {
  using Json = nlohmann::json;
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Appends "[a,b,...]", where put(item, out) appends one.
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

// The same of whole numbers.
template <typename Numbers>
void append_json_numbers(const Numbers& numbers, std::string& out) {
  append_json_array(numbers, out, [](const auto& number, std::string& to) {
    const fmt::format_int digits(number);
    to.append(digits.data(), digits.size());
  });
}

}  // namespace memprofd
