// SPDX-License-Identifier: Apache-2.0
#include "daemon/model/location.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

std::string_view without_build_folder(std::string_view file) {
  // Removes dune's context folder, or the folders of opam's and Debian's builds with the package's
  // name.
  constexpr std::string_view kDune = "/_build/";
  if (const std::size_t at = file.rfind(kDune); at != file.npos) {
    const std::size_t end = file.find('/', at + kDune.size());
    return file.substr(end == file.npos ? at + kDune.size() : end + 1);
  }
  for (const std::string_view folder :
       {"/.opam-switch/build/", "/build/reproducible-path/", "/usr/src/"}) {
    if (const std::size_t at = file.find(folder); at != file.npos) {
      return file.substr(at + folder.size());
    }
  }
  constexpr std::string_view kDebian = "/build/";
  return file.starts_with(kDebian) ? file.substr(kDebian.size()) : file;
}

}  // namespace

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

std::string location_text(const std::string& path, std::uint32_t line) {
  const std::string file = printable(without_build_folder(path));
  if (file.empty() || line == 0) return file;
  return absl::StrCat(file, ":", line);
}

}  // namespace memprofd
