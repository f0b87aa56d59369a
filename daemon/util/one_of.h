// SPDX-License-Identifier: Apache-2.0
// Values that a command line option takes.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace memprofd {

// For ->check(): numbers between these, inclusive. Errors show the limits; help, unlike that of
// CLI::Range, does not.
template <typename Number>
CLI::Validator in_range(Number low, Number high) {
  return CLI::Range(low, high).description("");
}

// For ->transform(): converts a word into its value, such as an enum's. Help and errors show only
// the words.
template <typename Value>
CLI::Validator one_of(std::vector<std::pair<std::string, Value>> words) {
  std::vector<std::string> names;
  names.reserve(words.size());
  for (const auto& word : words) names.push_back(word.first);
  const std::map<std::string, Value> values(words.begin(), words.end());
  const auto transform = [values, names](std::string& text) {
    const auto found = values.find(text);
    if (found == values.end()) {
      return absl::StrCat("\"", text, "\" is none of ", absl::StrJoin(names, ", "));
    }
    text = std::to_string(static_cast<int>(found->second));
    return std::string();
  };
  return {transform, absl::StrCat("{", absl::StrJoin(names, ","), "}")};
}

}  // namespace memprofd
