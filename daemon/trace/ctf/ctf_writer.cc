// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/ctf/ctf_writer.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctf {
namespace {

constexpr std::uint64_t kIdsPerLot = 10'000;
// Event header, length, samples, source, prefix, number of codewords.
constexpr std::size_t kMaxAllocBytes = 4 + 3 * kMaxVintBytes + 1 + 2;
// The number of codewords takes one byte, and is at most the number of frames.
constexpr std::size_t kMaxShortFrames = 255;
constexpr std::size_t kMaxBlockEventBytes = 4 + kMaxVintBytes;
constexpr std::size_t kMaxLocationEventBytes = 4 + kMaxLocationBytes;

constexpr std::uint64_t kMinBytesBetweenFreshStarts = 1 << 20;
constexpr std::uint64_t kFreshStartShare = 32;
// Size of a repeated code in a callstack, besides its location.
constexpr std::uint64_t kCodeBytes = 8;

std::uint64_t hash_of(std::span<const Location> locations) {
  std::uint64_t hash = locations.size();
  for (const Location& at : locations) {
    hash = absl::HashOf(hash, at.file, at.function, at.line, at.start_column, at.end_column);
  }
  return hash;
}

absl::Status check(const Alloc& event) {
  std::uint64_t all_bits = 0;
  for (const std::uint64_t code : event.callstack) all_bits |= code;
  if (all_bits > kMaxCode) return absl::InvalidArgumentError("a code has more than 63 bits");
  if (event.length_words > kMaxWords || event.n_samples > kMaxWords) {
    return absl::InvalidArgumentError(absl::StrCat("a block of ", event.length_words, " words and ",
                                                   event.n_samples, " samples cannot be"));
  }
  return absl::OkStatus();
}

}  // namespace

// The open packet of a domain, and the state of its readers before that packet.
struct Writer::Domain {
  explicit Domain(std::uint16_t number, std::uint64_t start_us)
      : id(number), buffer(kMaxPacketBytes), out(buffer), last_us(start_us), written_us(start_us) {}

  bool is_open() const { return out.size() > 0; }

  std::uint16_t id;
  CallstackEncoder callstacks;
  std::vector<std::byte> buffer;
  ByteWriter out;
  PacketHeader header;
  std::uint64_t events = 0;
  std::uint64_t last_us;     // time of the last event
  std::uint64_t written_us;  // time of the last written event
  std::uint64_t next_id = 0;
  std::uint64_t end_of_lot = 0;
};

Writer::Writer(Sink sink, LocationsOf locations_of, TraceInfo info, WriterOptions options)
    : sink_(std::move(sink)),
      locations_of_(std::move(locations_of)),
      info_(std::move(info)),
      version_(options.version >= kVersionDomains ? kVersionDomains : kVersionOneDomain),
      location_buffer_(kMaxPacketBytes),
      locations_out_(location_buffer_) {
  domain(0);  // the domain in which locations are written
}

Writer::~Writer() = default;

Writer::Domain& Writer::domain(std::uint16_t id) {
  if (version_ < kVersionDomains) id = 0;
  if (last_domain_ != nullptr && last_domain_->id == id) return *last_domain_;
  std::unique_ptr<Domain>& found = domains_[id];
  if (found == nullptr) found = std::make_unique<Domain>(id, info_.start_time_us);
  last_domain_ = found.get();
  return *found;
}

absl::StatusOr<std::uint64_t> Writer::alloc(const Alloc& event) {
  RETURN_IF_ERROR(check(event));
  Domain& domain = this->domain(event.domain);
  if (domain.next_id == domain.end_of_lot) RETURN_IF_ERROR(take_ids(domain));
  RETURN_IF_ERROR(make_room(domain, event.time_us,
                            kMaxAllocBytes + CallstackEncoder::max_bytes(event.callstack.size())));
  put_alloc(domain, event);
  return domain.next_id++;
}

// The caller has made room.
void Writer::put_alloc(Domain& domain, const Alloc& event) {
  ByteWriter& out = domain.out;
  const std::size_t prefix = domain.callstacks.common_prefix(event.callstack);
  const bool is_short = event.length_words >= 1 && event.length_words <= kMaxShortAllocWords &&
                        event.n_samples == 1 && event.source == Source::kMinor &&
                        event.callstack.size() - prefix <= kMaxShortFrames;
  const auto id = is_short ? static_cast<std::uint64_t>(EventId::kShortAlloc) + event.length_words
                           : static_cast<std::uint64_t>(EventId::kAlloc);
  put_event_header(out, static_cast<std::uint8_t>(id), domain.last_us);
  if (!is_short) {
    out.put_vint(event.length_words);
    out.put_vint(event.n_samples);
    out.put(static_cast<std::uint8_t>(event.source));
  }
  out.put_vint(prefix);
  const std::size_t count_at = out.skip(is_short ? 1 : 2);
  const std::size_t count = domain.callstacks.put(
      out, event.callstack, prefix, [this](std::uint64_t code) { write_meaning(code); });
  if (is_short) {
    out.put_at(count_at, static_cast<std::uint8_t>(count));
  } else {
    out.put_at(count_at, static_cast<std::uint16_t>(count));
  }
}

absl::Status Writer::promote(const BlockEvent& event) {
  return put_block_event(EventId::kPromote, event);
}
absl::Status Writer::collect(const BlockEvent& event) {
  return put_block_event(EventId::kCollect, event);
}

absl::Status Writer::put_block_event(EventId id, const BlockEvent& event) {
  Domain& domain = this->domain(event.domain);
  const Domain* owner = owner_of(event.id);
  if (owner == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("no allocation has the id ", event.id));
  }
  if (owner != &domain) {
    // The allocation comes first in the file.
    const bool is_open = owner->is_open() && event.id >= owner->header.first_alloc_id;
    if (is_open) RETURN_IF_ERROR(flush());
    // A packet can only refer to ids below the next one of its domain.
    if (event.id >= domain.next_id) RETURN_IF_ERROR(take_ids(domain));
  }
  RETURN_IF_ERROR(make_room(domain, event.time_us, kMaxBlockEventBytes));
  put_event_header(domain.out, static_cast<std::uint8_t>(id), domain.last_us);
  domain.out.put_vint(domain.next_id - 1 - event.id);
  return absl::OkStatus();
}

const Writer::Domain* Writer::owner_of(std::uint64_t id) const {
  const std::uint64_t lot = id / kIdsPerLot;
  if (lot >= lot_owners_.size()) return nullptr;
  const Domain& owner = *lot_owners_[lot];
  const bool is_current_lot = id >= owner.end_of_lot - kIdsPerLot;
  return is_current_lot && id >= owner.next_id ? nullptr : &owner;
}

// The ids of a packet are consecutive.
absl::Status Writer::take_ids(Domain& domain) {
  const std::uint64_t next = lot_owners_.size() * kIdsPerLot;
  if (domain.next_id != next && domain.is_open()) RETURN_IF_ERROR(flush());
  domain.next_id = next;
  domain.end_of_lot = next + kIdsPerLot;
  lot_owners_.push_back(&domain);
  return absl::OkStatus();
}

absl::Status Writer::make_room(Domain& domain, std::uint64_t time_us, std::size_t bytes) {
  time_us = std::max(time_us, domain.last_us);
  const bool too_old =
      any_open_ && (time_us > oldest_open_us_ + kMaxPacketSpanUs ||
                    (domain.is_open() && time_us > domain.header.first_time_us + kMaxPacketSpanUs));
  if (too_old || (domain.is_open() && domain.out.remaining() < bytes) || !postponed_.ok()) {
    RETURN_IF_ERROR(flush());
  }
  if (!domain.is_open()) open_packet(domain, time_us);
  domain.last_us = time_us;
  ++domain.events;
  return absl::OkStatus();
}

void Writer::open_packet(Domain& domain, std::uint64_t time_us) {
  domain.header = {.first_time_us = time_us,
                   .version = static_cast<std::uint16_t>(version_),
                   .pid = info_.pid,
                   .domain = domain.id,
                   .verifier = domain.callstacks.next_verifier(),
                   .first_alloc_id = domain.next_id};
  domain.out.skip(header_bytes(version_));
  if (!any_open_) oldest_open_us_ = time_us;
  any_open_ = true;
}

void Writer::write_meaning(std::uint64_t code) {
  meaning_bytes_ += kCodeBytes;
  const auto [entry, is_new] = meanings_.try_emplace(code);
  Meaning& meaning = entry->second;
  if (meaning.written_in == fresh_starts_) return;
  meaning.written_in = fresh_starts_;
  std::vector<Location> locations = meaning_of(code);
  make_writable(locations);
  const std::uint64_t hash = hash_of(locations);
  if (is_new) meaning.hash = hash;
  // Readers refuse a file in which a code changes its meaning.
  if (meaning.hash == hash) put_location(code, locations);
}

std::vector<Location> Writer::meaning_of(std::uint64_t code) const {
  if (code == kCutCode) return {cut_location()};
  return locations_of_(code);
}

void Writer::put_location(std::uint64_t code, std::span<const Location> locations) {
  if (locations_out_.remaining() < kMaxLocationEventBytes) {
    postponed_.Update(write_locations());
  }
  if (locations_out_.size() == 0) locations_out_.skip(header_bytes(version_));
  const std::size_t before = locations_out_.size();
  put_event_header(locations_out_, static_cast<std::uint8_t>(EventId::kLocation),
                   domains_[0]->written_us);
  location_encoder_.put(locations_out_, code, locations);
  meaning_bytes_ += locations_out_.size() - before;
}

absl::Status Writer::flush() {
  absl::Status status = std::exchange(postponed_, absl::OkStatus());
  if (status.ok()) status = write_all();
  if (!status.ok()) {
    drop_open_packets();
    start_afresh();
  } else if (is_time_to_start_afresh()) {
    start_afresh();
  }
  return status;
}

absl::Status Writer::end(std::uint64_t time_us) {
  RETURN_IF_ERROR(flush());
  std::uint64_t last_us = 0;
  for (const auto& [id, domain] : domains_) last_us = std::max(last_us, domain->written_us);
  if (time_us <= last_us) return absl::OkStatus();
  Domain& domain = *domains_[0];
  open_packet(domain, time_us);
  domain.last_us = time_us;
  return flush();
}

absl::Status Writer::write_all() {
  RETURN_IF_ERROR(write_info());
  RETURN_IF_ERROR(write_locations());
  for (auto& [id, domain] : domains_) RETURN_IF_ERROR(write_events(*domain));
  any_open_ = false;
  return absl::OkStatus();
}

absl::Status Writer::write_info() {
  if (info_written_) return absl::OkStatus();
  std::vector<std::byte> buffer(kMaxPacketBytes);
  ByteWriter out(buffer);
  put_info_packet(out, info_, version_);
  RETURN_IF_ERROR(write(out.bytes()));
  info_written_ = true;
  return absl::OkStatus();
}

// Locations go to domain 0, between its written and its open packets.
absl::Status Writer::write_locations() {
  if (locations_out_.size() == 0) return absl::OkStatus();
  const Domain& domain = *domains_[0];
  const std::uint64_t next_id = domain.is_open() ? domain.header.first_alloc_id : domain.next_id;
  ByteWriter out(location_buffer_);
  put_header(out, {.size_bytes = static_cast<std::uint32_t>(locations_out_.size()),
                   .first_time_us = domain.written_us,
                   .last_time_us = domain.written_us,
                   .version = static_cast<std::uint16_t>(version_),
                   .pid = info_.pid,
                   .first_alloc_id = next_id,
                   .end_alloc_id = next_id});
  absl::Status status = write_info();
  if (status.ok()) status = write(locations_out_.bytes());
  locations_out_.clear();
  return status;
}

absl::Status Writer::write_events(Domain& domain) {
  if (!domain.is_open()) return absl::OkStatus();
  domain.header.size_bytes = static_cast<std::uint32_t>(domain.out.size());
  domain.header.last_time_us = domain.last_us;
  domain.header.end_alloc_id = domain.next_id;
  ByteWriter out(domain.buffer);
  put_header(out, domain.header);
  RETURN_IF_ERROR(write(domain.out.bytes()));
  domain.out.clear();
  domain.written_us = domain.last_us;
  domain.events = 0;
  return absl::OkStatus();
}

absl::Status Writer::write(std::span<const std::byte> packet) {
  RETURN_IF_ERROR(sink_(packet));
  bytes_written_ += packet.size();
  bytes_since_ += packet.size();
  return absl::OkStatus();
}

void Writer::drop_open_packets() {
  for (auto& [id, domain] : domains_) {
    domain->out.clear();
    domain->written_us = domain->last_us;
    events_lost_ += std::exchange(domain->events, 0);
  }
  locations_out_.clear();
  any_open_ = false;
}

bool Writer::is_time_to_start_afresh() const {
  return bytes_since_ >= std::max(kMinBytesBetweenFreshStarts, kFreshStartShare * meaning_bytes_);
}

void Writer::start_afresh() {
  for (auto& [id, domain] : domains_) domain->callstacks.forget();
  location_encoder_.forget();
  ++fresh_starts_;
  bytes_since_ = 0;
  meaning_bytes_ = 0;
}

}  // namespace memprofd::ctf
