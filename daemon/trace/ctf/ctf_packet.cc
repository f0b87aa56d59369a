// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/ctf/ctf_packet.h"

#include <string_view>

namespace memprofd::ctf {
namespace {

constexpr std::uint64_t kMaxTimeUs = std::uint64_t{1} << 62;
constexpr std::uint64_t kMaxAllocId = std::uint64_t{1} << 62;

std::string_view until_nul(std::string_view text, std::size_t max) {
  return text.substr(0, text.find('\0')).substr(0, max);
}

std::uint64_t event_time(std::uint32_t low, const PacketHeader& header) {
  const std::uint64_t base = header.first_time_us & ~std::uint64_t{kEventTimeMask};
  const bool wrapped = low < (header.first_time_us & kEventTimeMask);
  return base + low + (wrapped ? std::uint64_t{1} << kEventTimeBits : 0);
}

void get_location_body(ByteReader& in, RawEvent& event, std::span<const std::byte> start) {
  in.take(sizeof(std::uint64_t));
  for (int n = in.get<std::uint8_t>(); n > 0 && in.ok(); --n) {
    in.take(sizeof(std::uint32_t));
    const auto high = in.get<std::uint16_t>();
    if (((high >> 6) & 31) == kNewName) in.get_string(kMaxLocationBytes);
    if ((high >> 11) == kNewName) in.get_string(kMaxLocationBytes);
  }
  event.body = start.first(start.size() - in.remaining());
}

void get_codewords(ByteReader& in, RawEvent& event, std::span<const std::byte> start) {
  for (std::size_t n = event.n_codewords; n > 0 && in.ok(); --n) {
    const unsigned tag = in.get<std::uint16_t>() & 3u;
    if (tag == 2) in.take(1);
    if (tag == 3) in.take(sizeof(std::uint64_t));
  }
  event.body = start.first(start.size() - in.remaining());
}

void get_alloc(ByteReader& in, RawEvent& event, std::uint8_t short_words) {
  event.id = EventId::kAlloc;
  if (short_words > 0) {
    event.length_words = short_words;
    event.n_samples = 1;
    event.source = Source::kMinor;
    event.common_prefix = in.get_count();
    event.n_codewords = in.get<std::uint8_t>();
  } else {
    event.length_words = in.get_count();
    event.n_samples = in.get_count();
    const auto source = in.get<std::uint8_t>();
    if (source > 2 || event.length_words > kMaxWords || event.n_samples > kMaxWords) in.fail();
    event.source = static_cast<Source>(source);
    event.common_prefix = in.get_count();
    event.n_codewords = in.get<std::uint16_t>();
  }
}

}  // namespace

void put_header(ByteWriter& out, const PacketHeader& header) {
  out.put(kMagic);
  out.put<std::uint32_t>(header.size_bytes * 8);
  out.put(header.first_time_us);
  out.put(header.last_time_us);
  out.put<std::uint32_t>(0);
  out.put(header.version);
  out.put(header.pid);
  if (header.version >= kVersionDomains) out.put(header.domain);
  out.put(header.verifier.bucket);
  out.put(header.verifier.next);
  out.put(header.verifier.code);
  out.put(header.first_alloc_id);
  out.put(header.end_alloc_id);
}

HeaderState get_header(std::span<const std::byte> bytes, PacketHeader& header) {
  ByteReader in(bytes);
  if (in.get<std::uint32_t>() != kMagic) return HeaderState::kBad;
  const auto size_bits = in.get<std::uint32_t>();
  header.size_bytes = size_bits / 8;
  header.first_time_us = in.get<std::uint64_t>();
  header.last_time_us = in.get<std::uint64_t>();
  in.get<std::uint32_t>();
  header.version = in.get<std::uint16_t>();
  if (!in.ok()) return HeaderState::kBad;
  if (header.version < kVersionOneDomain || header.version > kVersionDomains) {
    return HeaderState::kUnsupportedVersion;
  }
  header.pid = in.get<std::uint64_t>();
  header.domain = header.version >= kVersionDomains ? in.get<std::uint16_t>() : 0;
  header.verifier.bucket = in.get<std::uint16_t>();
  header.verifier.next = in.get<std::uint16_t>();
  header.verifier.code = in.get<std::uint64_t>();
  header.first_alloc_id = in.get<std::uint64_t>();
  header.end_alloc_id = in.get<std::uint64_t>();
  const bool plausible =
      in.ok() && size_bits % 8 == 0 && header.size_bytes >= header_bytes(header.version) &&
      header.size_bytes <= kMaxPacketBytes && header.first_time_us <= header.last_time_us &&
      header.last_time_us <= kMaxTimeUs && header.first_alloc_id <= header.end_alloc_id &&
      header.end_alloc_id <= kMaxAllocId &&
      (header.verifier.bucket == kNoVerifier ||
       (header.verifier.bucket < kCacheBuckets && header.verifier.next < kCacheBuckets));
  return plausible ? HeaderState::kGood : HeaderState::kBad;
}

void put_event_header(ByteWriter& out, std::uint8_t id, std::uint64_t time_us) {
  out.put(static_cast<std::uint32_t>(std::uint32_t{id} << kEventTimeBits |
                                     (static_cast<std::uint32_t>(time_us) & kEventTimeMask)));
}

RawEvent get_event(ByteReader& in, const PacketHeader& header) {
  RawEvent event;
  const auto word = in.get<std::uint32_t>();
  event.time_us = event_time(word & kEventTimeMask, header);
  if (event.time_us > header.last_time_us) in.fail();
  const auto id = static_cast<std::uint8_t>(word >> kEventTimeBits);
  event.id = static_cast<EventId>(id);
  const unsigned short_words = id - static_cast<unsigned>(EventId::kShortAlloc);
  if (id == static_cast<std::uint8_t>(EventId::kAlloc) ||
      (short_words >= 1 && short_words <= kMaxShortAllocWords)) {
    const bool is_short = event.id != EventId::kAlloc;
    get_alloc(in, event, static_cast<std::uint8_t>(is_short ? short_words : 0));
    get_codewords(in, event, in.rest());
  } else if (event.id == EventId::kLocation) {
    get_location_body(in, event, in.rest());
  } else if (event.id == EventId::kPromote || event.id == EventId::kCollect) {
    event.id_delta = in.get_vint();
  } else if (event.id != EventId::kInfo) {
    in.fail();
  }
  return event;
}

bool is_well_formed(std::span<const std::byte> packet, const PacketHeader& header) {
  ByteReader in(packet.subspan(header_bytes(header.version)));
  std::uint64_t time_us = header.first_time_us;
  std::uint64_t next_id = header.first_alloc_id;
  while (!in.empty()) {
    const RawEvent event = get_event(in, header);
    if (!in.ok() || event.id == EventId::kInfo || event.time_us < time_us) return false;
    time_us = event.time_us;
    if (event.id == EventId::kAlloc) ++next_id;
    if (event.id == EventId::kPromote || event.id == EventId::kCollect) {
      // Negative for a block of another domain that got its id later. The difference is taken
      // modulo 2^64, where no combination overflows.
      const std::uint64_t id = next_id - 1 - static_cast<std::uint64_t>(event.id_delta);
      if (id > kMaxAllocId) return false;
    }
  }
  return in.ok() && next_id == header.end_alloc_id;
}

void put_info_packet(ByteWriter& out, const TraceInfo& info, int version) {
  PacketHeader header{.first_time_us = info.start_time_us,
                      .last_time_us = info.start_time_us,
                      .version = static_cast<std::uint16_t>(version),
                      .pid = info.pid};
  const std::size_t start = out.size();
  put_header(out, header);
  put_event_header(out, static_cast<std::uint8_t>(EventId::kInfo), info.start_time_us);
  out.put(info.sampling_rate);
  out.put(info.word_bits);
  out.put_string(until_nul(info.executable, kMaxInfoString));
  out.put_string(until_nul(info.host, kMaxInfoString));
  out.put_string(until_nul(info.ocamlrunparam, kMaxInfoString));
  out.put(info.pid);
  out.put_string(until_nul(info.context, kMaxInfoString));
  out.put_at(start + sizeof kMagic, static_cast<std::uint32_t>((out.size() - start) * 8));
}

std::string get_info_packet(std::span<const std::byte> packet, const PacketHeader& header,
                            TraceInfo& info) {
  ByteReader in(packet.subspan(header_bytes(header.version)));
  const RawEvent event = get_event(in, header);
  if (!in.ok() || event.id != EventId::kInfo || header.end_alloc_id != 0) {
    return "the first packet is not the trace's description";
  }
  info.start_time_us = header.first_time_us;
  info.sampling_rate = in.get<double>();
  info.word_bits = in.get<std::uint8_t>();
  info.executable = in.get_string(kMaxPacketBytes);
  info.host = in.get_string(kMaxPacketBytes);
  info.ocamlrunparam = in.get_string(kMaxPacketBytes);
  info.pid = in.get<std::uint64_t>();
  info.context = in.get_string(kMaxPacketBytes);
  if (!in.ok() || !in.empty()) return "the trace's description is damaged";
  if (!(info.sampling_rate > 0 && info.sampling_rate <= 1)) {
    return "the sampling rate is not between 0 and 1";
  }
  if (info.word_bits != 32 && info.word_bits != 64) return "its words have neither 32 nor 64 bits";
  return "";
}

}  // namespace memprofd::ctf
