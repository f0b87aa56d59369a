// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/usage.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/util/utf8.h"

namespace memprofd {

std::string unexpected_argument_text(const std::vector<std::string>& arguments,
                                     const std::string& help) {
  if (arguments.empty()) return "";
  // The words after an unknown option are its values.
  const auto option = std::ranges::find_if(
      arguments, [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  const std::string remedy = absl::StrCat("; `", help, "` lists the options");
  if (option == arguments.end()) {
    return absl::StrCat("unexpected argument \"", printable(arguments[0]), "\"", remedy);
  }
  return absl::StrCat("there is no option ", printable(*option), remedy);
}

}  // namespace memprofd
