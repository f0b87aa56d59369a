// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/shell_word.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace memprofd {

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "_@%+=:,./-";
  const bool is_plain = !text.empty() && std::ranges::all_of(text, [&](unsigned char c) {
    return absl::ascii_isalnum(c) || kPlain.find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (is_plain) return text;
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

}  // namespace memprofd
