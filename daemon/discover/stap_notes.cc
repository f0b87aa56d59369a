// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/stap_notes.h"

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

namespace memprofd {
namespace {

constexpr std::size_t kMaxProbes = 65536;
constexpr std::size_t kMaxArguments = 4096;
constexpr std::string_view kOwner("stapsdt\0", 8);
constexpr std::uint32_t kProbeType = 3;

// Removes a NUL-terminated string from the front and returns it; nothing if there is none.
std::optional<std::string> take_string(std::string_view& bytes) {
  const std::size_t end = bytes.find('\0');
  if (end == std::string_view::npos || end > kMaxArguments) return std::nullopt;
  std::string result(bytes.substr(0, end));
  bytes.remove_prefix(end + 1);
  return result;
}

// Parses the descriptor of a note: three addresses and three strings.
std::optional<StapProbe> parse_probe(std::string_view bytes, std::uint64_t base_section) {
  std::uint64_t words[3];
  if (bytes.size() < sizeof words) return std::nullopt;
  std::memcpy(words, bytes.data(), sizeof words);
  bytes.remove_prefix(sizeof words);
  auto provider = take_string(bytes);
  auto name = provider ? take_string(bytes) : std::nullopt;
  auto arguments = name ? take_string(bytes) : std::nullopt;
  if (!arguments) return std::nullopt;
  const std::uint64_t moved = base_section != 0 ? base_section - words[1] : 0;
  return StapProbe{.provider = std::move(*provider),
                   .name = std::move(*name),
                   .arguments = std::move(*arguments),
                   .location = words[0] + moved,
                   .semaphore = words[2] == 0 ? 0 : words[2] + moved};
}

// Removes this number of bytes and the padding to 4 from the front; nothing if they are missing.
std::optional<std::string_view> take_padded(std::string_view& bytes, std::uint64_t size) {
  const std::uint64_t padded = (size + 3) & ~std::uint64_t{3};
  if (size > bytes.size()) return std::nullopt;
  const std::string_view result = bytes.substr(0, size);
  bytes.remove_prefix(padded < bytes.size() ? padded : bytes.size());
  return result;
}

}  // namespace

std::vector<StapProbe> parse_stap_notes(std::string_view notes, std::uint64_t base_section) {
  std::vector<StapProbe> probes;
  while (probes.size() < kMaxProbes && notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, notes.data(), sizeof header);
    notes.remove_prefix(sizeof header);
    const auto owner = take_padded(notes, header.n_namesz);
    const auto descriptor = owner ? take_padded(notes, header.n_descsz) : std::nullopt;
    if (!descriptor) break;
    if (*owner != kOwner || header.n_type != kProbeType) continue;
    auto probe = parse_probe(*descriptor, base_section);
    if (probe) probes.push_back(std::move(*probe));
  }
  return probes;
}

}  // namespace memprofd
