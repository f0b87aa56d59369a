// SPDX-License-Identifier: Apache-2.0
// Classifies mappings by their files, permissions and neighbours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/rss/extent_layer.h"

namespace memprofd {

struct AddressSpan {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool contains(std::uint64_t address) const { return begin <= address && address < end; }
};

// Interned texts; number 0 is none.
class PartNames {
 public:
  std::uint32_t number_of(const std::string& name);
  const std::string& name(std::uint32_t number) const { return names_[number]; }

 private:
  std::vector<std::string> names_{""};
  absl::flat_hash_map<std::string, std::uint32_t> numbers_{{"", 0}};
};

struct ClassifiedMappings {
  ExtentLayer layer;  // sealed; omits mappings whose pages are not part of the resident size
  std::vector<AddressSpan> break_heap;  // "[heap]", where malloc's main arena begins
  std::vector<AddressSpan> anonymous;   // readable and writable, without a file, of unknown use
  // Anonymous memory right behind a library's data: its zeroed data, and in the same mapping
  // whatever the kernel placed above.
  std::vector<AddressSpan> behind_data;
  std::vector<AddressSpan> guarded;  // the anonymous ones after an inaccessible mapping
  std::vector<AddressSpan>
      libc_data;                // writable data of the C library, or of the program if it is static
  bool has_main_stack = false;  // "[stack]" of the first thread
  std::string other_allocator;  // "jemalloc"; empty: no allocator known by its file
};

// kResourceExhausted, in one line, if the process has too many mappings.
absl::Status check_number(const std::vector<Mapping>& maps, int pid);
// maps: in the order of addresses. exe: path of the program, as in maps.
ClassifiedMappings classify_mappings(const std::vector<Mapping>& maps, const std::string& exe,
                                     PartNames& names);

}  // namespace memprofd
