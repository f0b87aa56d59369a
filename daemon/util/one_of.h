// SPDX-License-Identifier: Apache-2.0
// Options of the command line whose words stand for values.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace memprofd {

// For ->transform(): turns a word into its value. Help shows the words alone.
template <typename Value>
CLI::Validator one_of(std::vector<std::pair<std::string, Value>> words) {
  std::vector<std::string> names;
  names.reserve(words.size());
  for (const auto& word : words) names.push_back(word.first);
  CLI::Validator validator =
      CLI::Transformer(std::map<std::string, Value>(words.begin(), words.end()));
  validator.description(absl::StrCat("{", absl::StrJoin(names, ","), "}"));
  return validator;
}

}  // namespace memprofd
