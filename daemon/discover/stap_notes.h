// SPDX-License-Identifier: Apache-2.0
// SystemTap's notes on where a file has static probes (section .note.stapsdt).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memprofd {

// A SystemTap SDT probe. Addresses are already corrected for prelinking by the distance between
// .stapsdt.base and the base recorded in the note.
struct StapProbe {
  std::string provider;
  std::string name;
  std::string arguments;
  std::uint64_t location = 0;
  std::uint64_t semaphore = 0;  // 0: none
};

// Total: other notes are skipped, and parsing ends at the first truncated one. base_section:
// address of .stapsdt.base, 0: there is none.
std::vector<StapProbe> parse_stap_notes(std::string_view notes, std::uint64_t base_section);

}  // namespace memprofd
