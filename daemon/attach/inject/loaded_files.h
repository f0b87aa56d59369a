// SPDX-License-Identifier: Apache-2.0
// What the dynamic linker of a process says that it has loaded. It says so in the process's
// own memory, where the process may write anything: an answer is a claim to be checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/discover/memory_reader.h"

namespace memprofd {

// The difference between addresses in the process and in the file that was loaded last under
// that name (as given to dlopen). Some small reads; `list` is that of LibcFunctions. Nothing
// when none of the last kLoadedLast files has the name.
inline constexpr int kLoadedLast = 16;
std::optional<std::uint64_t> load_bias_of(const MemoryReader& memory, std::uint64_t list,
                                          const std::string& name);

}  // namespace memprofd
