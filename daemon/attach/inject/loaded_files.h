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

// The entry of the file that was loaded last, in the linker's list (LibcFunctions::loaded_list).
// Reads the whole list, one entry at a time. Nothing when it has no end.
std::optional<std::uint64_t> last_loaded(const MemoryReader& memory, std::uint64_t list);

// The differences between addresses in the process and in the files of that list, from the program
// to the files that the process has loaded itself. If two files define a name, calls from all files
// but those loaded separately use the first. Nothing as above.
std::optional<std::vector<std::uint64_t>> biases_in_order(const MemoryReader& memory,
                                                          std::uint64_t list);

// A file that was loaded under a name (as given to dlopen).
struct LoadedAt {
  std::uint64_t bias = 0;   // difference between addresses in the process and in the file
  std::size_t answers = 0;  // number of pieces that ask() added and that were read
};
// Adds questions about a file with that bias; called for the last file with the name.
using AskOfFile = std::function<void(std::uint64_t bias, MemoryQuestion&)>;
// The first file with that name among the kLoadedLast files that were loaded after that entry. A
// few small reads, however many files there are, because the process may be paused meanwhile.
inline constexpr int kLoadedLast = 16;
std::optional<LoadedAt> load_bias_after(const MemoryReader& memory, std::uint64_t entry,
                                        const std::string& name, const AskOfFile& ask);

}  // namespace memprofd
