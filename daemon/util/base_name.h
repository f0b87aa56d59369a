// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace memprofd {

// The last component of a path; all of a path without '/'. The result lives as long as the path.
inline std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// A path from /proc without the kernel's mark of a file that was removed or replaced.
inline std::string_view without_deleted(std::string_view path) {
  constexpr std::string_view kMark = " (deleted)";
  if (path.ends_with(kMark)) path.remove_suffix(kMark.size());
  return path;
}

}  // namespace memprofd
