// SPDX-License-Identifier: Apache-2.0
#include "daemon/model/location.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace memprofd {

bool is_unit_name(std::string_view name) {
  if (name.empty() || !absl::ascii_isupper(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '\'';
  });
}

std::string_view compilation_unit(std::string_view function, std::string_view elf_file) {
  const std::string_view head = function.substr(0, function.find('.'));
  if (is_unit_name(head)) return head;
  return elf_file.empty() ? "(no module)" : elf_file;
}

}  // namespace memprofd
