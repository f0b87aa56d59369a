// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/linked_units.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/types/compiler_file.h"
#include "daemon/snapshot/types/marshal_graph.h"

namespace memprofd {
namespace {

// Limits of the search for the list: bytes of the program's data, and strings that look like
// marshalled values.
constexpr std::uint64_t kMaxSearchedBytes = std::uint64_t{1} << 30;
constexpr int kMaxTried = 64;
constexpr std::size_t kWindowBytes = 1 << 16;
constexpr std::uint32_t kMarshalMagic = 0x8495A6BE;  // big-endian in the file
constexpr std::uint64_t kStatic = 0x300;             // colour of a block outside of the heap

bool is_digest_option(MarshalValue value) {
  if (!value.is_block()) return true;
  return value.is(0) && value.size() == 1 && value.field(0).text().size() == kDigestBytes;
}

std::uint64_t word_at(std::span<const std::byte> bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

// True if the header of a static block and the next word begin an OCaml string with a marshalled
// value.
bool begins_value(std::uint64_t header, std::uint64_t first) {
  return tag_of(header) == kStringTag && colour_of(header) == kStatic &&
         static_cast<std::uint32_t>(first) == __builtin_bswap32(kMarshalMagic) &&
         fields_of(header) * kWordBytes <= kMaxListBytes;
}

// Parses the string at an address of the file.
InterfaceDigests units_at(const ElfFile& program, std::uint64_t address) {
  std::byte header[kWordBytes];
  if (!program.read(address - kWordBytes, header).ok()) return {};
  const std::uint64_t words = fields_of(word_at(header));
  if (words == 0 || words * kWordBytes > kMaxListBytes) return {};
  std::string bytes(words * kWordBytes, '\0');
  if (!program.read(address, std::as_writable_bytes(std::span(bytes))).ok()) return {};
  return read_linked_units(bytes);
}

InterfaceDigests search(const ElfFile& program) {
  std::uint64_t searched = 0;
  int tried = 0;
  std::string window;
  for (const ElfSegment& segment : program.segments()) {
    if (!segment.writable || segment.executable) continue;
    // Windows overlap by a word, so that each pair of words is in one.
    std::uint64_t at = 0;
    while (at + 2 * kWordBytes <= segment.file_size && searched < kMaxSearchedBytes) {
      window.resize(std::min<std::uint64_t>(kWindowBytes, segment.file_size - at));
      const auto bytes = std::as_writable_bytes(std::span(window));
      if (!program.read(segment.address + at, bytes).ok()) break;
      searched += window.size();
      for (std::size_t i = (8 - (segment.address + at) % 8) % 8;
           i + 2 * kWordBytes <= window.size(); i += kWordBytes) {
        if (!begins_value(word_at(bytes.subspan(i)), word_at(bytes.subspan(i + kWordBytes)))) {
          continue;
        }
        if (++tried > kMaxTried) return {};
        InterfaceDigests found = units_at(program, segment.address + at + i + kWordBytes);
        if (!found.empty()) return found;
      }
      at += std::max<std::size_t>(window.size() - kWordBytes, kWordBytes);
    }
  }
  return {};
}

}  // namespace

InterfaceDigests read_linked_units(std::string_view bytes) {
  InterfaceDigests units;
  const auto list = MarshalGraph::read(bytes);
  if (!list.ok()) return units;
  bool is_list = true;
  for_each_in_list(list->root(), [&](MarshalValue unit) {
    const std::string_view name = unit.field(0).text();
    is_list = is_list && unit.is(0) && unit.size() == 4 && !name.empty() &&
              name.size() <= kMaxUnitName && is_digest_option(unit.field(1)) &&
              is_digest_option(unit.field(2));
    if (!is_list || !unit.field(1).is_block()) return;
    units.emplace(name, unit.field(1).field(0).text());
  });
  return is_list ? std::move(units) : InterfaceDigests();
}

InterfaceDigests interfaces_of(const ElfFile& program) {
  if (const auto symbol = program.find_symbol("caml_globals_map")) {
    return units_at(program, symbol->address);
  }
  return search(program);
}

}  // namespace memprofd
