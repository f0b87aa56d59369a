// SPDX-License-Identifier: Apache-2.0
// The list of loaded files of a process's dynamic linker. It is in the process's own memory, where
// the process may write anything: an entry is a claim that has to be checked.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/discover/target_memory.h"

namespace memprofd {

// The linker's list entry of the file that was loaded last (list: LibcFunctions::loaded_list).
// Reads the whole list, one entry at a time. Returns nothing if the list has no end.
std::optional<std::uint64_t> last_loaded(const MemoryReader& memory, std::uint64_t list);

// The load biases (address in the process minus address in the file) of all files in the list: the
// program first, then in load order. If two files define a name, all files use the first
// definition, except those loaded separately. Returns nothing if the list has no end.
std::optional<std::vector<std::uint64_t>> biases_in_order(const MemoryReader& memory,
                                                          std::uint64_t list);

// A file that was loaded under a name (as given to dlopen).
struct LoadedAt {
  std::uint64_t bias = 0;   // difference between addresses in the process and in the file
  std::size_t answers = 0;  // number of pieces that ask() added and that were read
};
// Adds questions about a file with that bias; called for the last file with the name.
using AskOfFile = std::function<void(std::uint64_t bias, MemoryQuestion&)>;
// Looks for the name among the kLoadedLast files that were loaded after that entry, and returns the
// first match. Takes a few small reads, however many files there are, because the process may be
// paused meanwhile.
inline constexpr int kLoadedLast = 16;
std::optional<LoadedAt> load_bias_after(const MemoryReader& memory, std::uint64_t entry,
                                        const std::string& name, const AskOfFile& ask);

}  // namespace memprofd
