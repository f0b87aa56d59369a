// SPDX-License-Identifier: Apache-2.0
// Recognises files of the C library by the names under which they are mapped: also after an upgrade
// has replaced them.
#pragma once

#include <string_view>

#include "daemon/util/base_name.h"

namespace memprofd {

inline bool is_libc(std::string_view name) {
  name = without_deleted(name);
  return name == "libc.so.6" || (name.starts_with("libc-2.") && name.ends_with(".so"));
}
inline bool is_libdl(std::string_view name) {
  name = without_deleted(name);
  return name == "libdl.so.2" || (name.starts_with("libdl-2.") && name.ends_with(".so"));
}
inline bool is_linker(std::string_view name) {
  name = without_deleted(name);
  return name == "ld-linux-x86-64.so.2" || (name.starts_with("ld-2.") && name.ends_with(".so"));
}
// musl's C library is also its dynamic linker.
inline bool is_musl(std::string_view name) {
  return name.starts_with("ld-musl-") || name.starts_with("libc.musl-");
}

}  // namespace memprofd
