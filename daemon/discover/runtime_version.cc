// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/runtime_version.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/runtime/code_check.h"
#include "daemon/runtime/runtime_abi.h"

namespace memprofd {
namespace {

// True if it looks like Sys.ocaml_version: "4.13.1", "5.3.0~beta1", "4.14.0+flambda".
bool is_full_version(std::string_view text) {
  const std::string_view series = series_of(text);
  if (series.empty() || text.size() < series.size() + 2 || text[series.size()] != '.') return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isgraph(c); }) &&
         std::isdigit(static_cast<unsigned char>(text[series.size() + 1]));
}

// The OCaml string whose header is the first word of bytes; nothing if that is no string header.
std::optional<std::string_view> ocaml_string(std::string_view bytes) {
  constexpr std::uint64_t kStringTag = 252;
  constexpr std::uint64_t kMaxWords = 16;
  std::uint64_t header = 0;
  if (bytes.size() < 2 * sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::uint64_t words = header >> 10;
  if ((header & 0xff) != kStringTag || words == 0 || words > kMaxWords) return std::nullopt;
  if (bytes.size() < (words + 1) * 8) return std::nullopt;
  const std::uint64_t padding = static_cast<unsigned char>(bytes[words * 8 + 7]);
  if (padding > 7) return std::nullopt;
  return bytes.substr(8, words * 8 - 1 - padding);
}

std::optional<std::string> version_in_sys_module(const ElfFile& program) {
  static constexpr std::string_view kBounds[] = {
      "camlStdlib__Sys__data_begin", "camlStdlib__Sys__data_end", "camlStdlib__Sys.data_begin",
      "camlStdlib__Sys.data_end", "camlStdlib__Sys"};
  constexpr std::uint64_t kMaxBytes = 64 << 10;
  const auto symbols = program.find_symbols(kBounds);
  for (std::size_t i = 0; i + 1 < symbols.size(); i += 2) {
    if (!symbols[i] || !symbols[i + 1]) continue;
    const std::uint64_t begin = symbols[i]->address & ~7ull;
    const std::uint64_t end = symbols[i + 1]->address;
    if (end <= begin || end - begin > kMaxBytes) continue;
    std::vector<std::byte> data(end - begin);
    if (!program.read(begin, data).ok()) continue;
    if (auto version = find_version_string(data)) return version;
  }
  return std::nullopt;
}

using Code = std::array<std::byte, 64>;

// The first bytes of a function; zeros if the program lacks it.
Code code_of(const ElfFile& program, std::string_view function) {
  Code code = {};
  const auto symbol = program.find_symbol(function);
  if (!symbol || !program.read(symbol->address, code).ok()) code = {};
  return code;
}

// Chooses among the first series and those after it that have no symbol of their own. Returns the
// one that matches the program's code, or else the newest, which is refused later.
std::string_view choose_by_code(std::span<const Release> from, const ElfFile& program) {
  std::size_t count = 1;
  while (count < from.size() && from[count].first_symbol.empty()) ++count;
  if (count == 1) return from[0].series;
  const auto young_ptr = decode_caml_c_call(code_of(program, "caml_c_call")).young_ptr;
  const auto memprof =
      decode_far_load(code_of(program, "caml_memprof_delete_domain"), FarLoad::kFromRdi);
  for (const Release& one : from.first(count)) {
    if (one.facts.young_ptr == young_ptr &&
        (one.facts.memprof == 0 || one.facts.memprof == memprof))
      return one.series;
  }
  return from[count - 1].series;
}

}  // namespace

std::optional<std::string> find_version_string(std::span<const std::byte> section) {
  const std::string_view bytes(reinterpret_cast<const char*>(section.data()), section.size());
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const auto text = ocaml_string(bytes.substr(at));
    if (text && is_full_version(*text)) return std::string(*text);
  }
  return std::nullopt;
}

std::string detect_runtime_version(const ElfFile& program) {
  if (auto version = version_in_sys_module(program)) return *version;
  const std::span<const Release> all = releases();
  for (std::size_t i = all.size(); i-- > 1;) {
    if (!all[i].first_symbol.empty() && program.find_symbol(all[i].first_symbol))
      return std::string(choose_by_code(all.subspan(i), program));
  }
  return std::string(all[0].series);
}

}  // namespace memprofd
