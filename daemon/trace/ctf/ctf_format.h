// SPDX-License-Identifier: Apache-2.0
// The Memtrace trace format: its numbers and the events that its files carry.
//
//   file     = info packet, packet...
//   packet   = header, event...          at most kMaxPacketBytes and kMaxPacketSpanUs
//   event    = u32 (id << 25 | low 25 bits of the time), body
//
// Little-endian throughout, strings end in NUL. Version 2 knows one domain;
// version 3 has a domain in each packet header, everything else is the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace memprofd::ctf {

inline constexpr std::uint32_t kMagic = 0xC1FC1FC1;
inline constexpr int kVersionOneDomain = 2;
inline constexpr int kVersionDomains = 3;

inline constexpr std::size_t kMaxPacketBytes = 32768;
inline constexpr std::uint64_t kMaxPacketSpanUs = 30'000'000;
inline constexpr unsigned kEventTimeBits = 25;
inline constexpr std::uint32_t kEventTimeMask = (1u << kEventTimeBits) - 1;

enum class EventId : std::uint8_t {
  kInfo = 0,
  kLocation = 1,
  kAlloc = 2,
  kPromote = 3,
  kCollect = 4,
  // 101 ... 116: a small block of id - 100 words, minor heap, one sample.
  kShortAlloc = 100,
};
inline constexpr std::uint64_t kMaxShortAllocWords = 16;
// Maximum size of a block: OCaml's headers have 54 bits for the size.
inline constexpr std::uint64_t kMaxWords = std::uint64_t{1} << 54;

// Each domain has a table of codes that writer and reader keep in step.
inline constexpr unsigned kCacheBits = 14;
inline constexpr std::size_t kCacheBuckets = std::size_t{1} << kCacheBits;
inline constexpr std::uint16_t kNoVerifier = 0xFFFF;

// Files, and for each file functions, are numbered by how recently they were used.
inline constexpr std::size_t kNameTableEntries = 31;
inline constexpr std::uint8_t kNewName = 31;

inline constexpr std::uint32_t kMaxLine = 0xFFFFF;
inline constexpr std::uint32_t kMaxStartColumn = 0xFF;
inline constexpr std::uint32_t kMaxEndColumn = 0x3FF;
inline constexpr std::size_t kMaxLocationBytes = 4096;
inline constexpr std::size_t kMaxInlined = 255;
inline constexpr std::size_t kMaxCallstackBytes = 4096;

// Readers hold codes and ids in 63-bit integers.
inline constexpr std::uint64_t kMaxCode = (std::uint64_t{1} << 63) - 1;
// Replaces the middle of a callstack that was too long for one event.
inline constexpr std::uint64_t kCutCode = (std::uint64_t{1} << 62) - 1;

// The first packet's facts about the program.
struct TraceInfo {
  double sampling_rate = 0;     // samples per word
  std::uint8_t word_bits = 64;  // the format calls it word size: bits, not bytes
  std::string executable;
  std::string host;
  std::string ocamlrunparam;
  std::string context;
  std::uint64_t pid = 0;
  std::uint64_t start_time_us = 0;  // since the Unix epoch
  bool operator==(const TraceInfo&) const = default;
};

struct Location {
  std::string file;
  std::string function;
  std::uint32_t line = 0;
  std::uint32_t start_column = 0;
  std::uint32_t end_column = 0;
  bool operator==(const Location&) const = default;
};

// Replacements for locations that cannot be written or are no longer known.
inline Location unknown_location() { return {"<unknown>", "??", 1, 1, 1}; }
inline Location cut_location() { return {"<unknown>", "<frames left out>", 1, 1, 1}; }

enum class Source : std::uint8_t { kMinor = 0, kMajor = 1, kExternal = 2 };

// Times are microseconds since the Unix epoch.
struct Alloc {
  std::uint64_t time_us = 0;
  std::uint64_t id = 0;
  std::uint16_t domain = 0;
  std::uint64_t length_words = 0;  // without the header
  std::uint64_t n_samples = 0;
  Source source = Source::kMinor;
  // Outermost first. A code represents zero or more locations.
  std::span<const std::uint64_t> callstack;
};

struct BlockEvent {
  std::uint64_t time_us = 0;
  std::uint64_t id = 0;
  std::uint16_t domain = 0;
  bool operator==(const BlockEvent&) const = default;
};
struct Promote : BlockEvent {};
struct Collect : BlockEvent {};

}  // namespace memprofd::ctf
