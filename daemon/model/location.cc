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

bool is_library_code(const Location& location) {
  const std::string_view function = location.function;
  const std::string_view unit = function.substr(0, function.find('.'));
  if (unit == "Stdlib" || unit == "Std_exit") return true;
  for (const std::string_view prefix : {"Stdlib__", "Camlinternal", "caml_"}) {
    if (unit.starts_with(prefix)) return true;
  }
  for (const std::string_view file : {"libc.so", "libc-", "ld-linux", "ld-2", "ld-musl"}) {
    if (location.library.starts_with(file)) return true;
  }
  return false;
}

}  // namespace memprofd
