// SPDX-License-Identifier: Apache-2.0
// Packet headers and the structure of a packet's events, without the meaning that depends on
// earlier packets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "daemon/trace/ctf/ctf_bytes.h"
#include "daemon/trace/ctf/ctf_format.h"

namespace memprofd::ctf {

// The contents of one bucket before the packet, by which a reader checks that its table equals the
// writer's. bucket is kNoVerifier for none.
struct Verifier {
  std::uint16_t bucket = kNoVerifier;
  std::uint16_t next = 0;
  std::uint64_t code = 0;
};

struct PacketHeader {
  std::uint32_t size_bytes = 0;  // header included
  std::uint64_t first_time_us = 0;
  std::uint64_t last_time_us = 0;
  std::uint16_t version = 0;
  std::uint64_t pid = 0;
  std::uint16_t domain = 0;
  Verifier verifier;
  std::uint64_t first_alloc_id = 0;
  std::uint64_t end_alloc_id = 0;  // exclusive
};

inline constexpr std::size_t kMaxHeaderBytes = 68;
constexpr std::size_t header_bytes(int version) {
  return version >= kVersionDomains ? kMaxHeaderBytes : kMaxHeaderBytes - 2;
}
void put_header(ByteWriter& out, const PacketHeader& header);

enum class HeaderState { kGood, kBad, kUnsupportedVersion };
// Reads a header at the start of bytes; needs kMaxHeaderBytes or the rest of the file. kGood: it
// may be the start of a packet.
HeaderState get_header(std::span<const std::byte> bytes, PacketHeader& header);

// One event as stored in the packet. The spans are valid as long as the packet.
struct RawEvent {
  EventId id = EventId::kInfo;
  std::uint64_t time_us = 0;
  // Allocation.
  std::uint64_t length_words = 0;
  std::uint64_t n_samples = 0;
  Source source = Source::kMinor;
  std::uint64_t common_prefix = 0;
  std::size_t n_codewords = 0;
  // Codewords of an allocation, body of a location.
  std::span<const std::byte> body;
  // Promotion, collection: next allocation id - 1 - id.
  std::int64_t id_delta = 0;
};

// Reads the event at the start of in; in.ok() is false if there was none. The body of an info event
// stays in the reader.
RawEvent get_event(ByteReader& in, const PacketHeader& header);

void put_event_header(ByteWriter& out, std::uint8_t id, std::uint64_t time_us);

// Checks a packet of events by itself: the events fill it exactly, their times rise within its
// bounds, and their ids are the announced ones.
bool is_well_formed(std::span<const std::byte> packet, const PacketHeader& header);

// Strings end at NUL or after kMaxInfoString bytes.
inline constexpr std::size_t kMaxInfoString = 4096;
void put_info_packet(ByteWriter& out, const TraceInfo& info, int version);
// Returns an error that names the fault, but not the file.
std::string get_info_packet(std::span<const std::byte> packet, const PacketHeader& header,
                            TraceInfo& info);

}  // namespace memprofd::ctf
