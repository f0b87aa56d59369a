// SPDX-License-Identifier: Apache-2.0
// Writes a trace to a sink, packet by packet.
//
// The writer collects events in one open packet per domain, and the meanings of codes in one packet
// of locations. It writes all open packets together, locations first, when one is full, when the
// oldest event is 30 s older than the next, or on flush(). So a location precedes its use, an
// allocation precedes the other events of its block, and domains are at most 30 s apart in the
// file.
//
//   domain 0   a a p c a ...           sink  ◀─ info
//   domain 1   a c ...           ──▶         ◀─ locations, domain 0, domain 1
//   locations  l l l                         ◀─ domain 0, domain 1 (nothing new)
//
// From time to time the writer starts afresh: it repeats all information that readers need for
// later packets. This takes about 3 % of the file and limits the loss from a damaged packet.
//
// Use by one thread at a time. Memory: about 0.3 MB per domain and 32 bytes per code (at most the
// bytes that the code takes in the file).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/trace/ctf/ctf_callstack_encoder.h"
#include "daemon/trace/ctf/ctf_format.h"
#include "daemon/trace/ctf/ctf_locations.h"
#include "daemon/trace/ctf/ctf_packet.h"

namespace memprofd::ctf {

struct WriterOptions {
  // kVersionOneDomain merges all domains into one: the last released reader
  // of the reference implementation accepts only that.
  int version = kVersionOneDomain;
};

class Writer {
 public:
  // Takes one complete packet. If it fails, the open data is lost; later events do not depend on
  // it.
  using Sink = std::function<absl::Status(std::span<const std::byte> packet)>;
  // Caller before callee; empty if unknown. Called once for each code, and again after starting
  // afresh; the first result is kept.
  using LocationsOf = std::function<std::vector<Location>(std::uint64_t code)>;

  Writer(Sink sink, LocationsOf locations_of, TraceInfo info, WriterOptions options = {});
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  // Does not flush, because that can fail.
  ~Writer();

  // Returns the block's id in the file; event.id is ignored. Ids rise by one with
  // each allocation; each further domain of version 3 takes them in lots of 10,000.
  // An earlier time than the last one of the domain becomes that one.
  // An error of the sink concerns events put earlier, and this one is not written.
  absl::StatusOr<std::uint64_t> alloc(const Alloc& event);
  // id: from alloc().
  absl::Status promote(const BlockEvent& event);
  absl::Status collect(const BlockEvent& event);

  // After this the sink has a complete, readable file.
  absl::Status flush();
  // Flushes, and lets the trace last until that time at least: without a later event by a packet
  // that has none. Once, at the end.
  absl::Status end(std::uint64_t time_us);

  // Counts of data that the sink has taken, without the open packet.
  std::uint64_t bytes_written() const { return bytes_written_; }
  // Allocations, promotions and collections lost due to errors of the sink.
  std::uint64_t events_lost() const { return events_lost_; }

 private:
  struct Domain;
  struct Meaning {
    std::uint64_t hash = 0;
    std::uint64_t written_in = 0;  // the fresh start after which it was written last
  };

  Domain& domain(std::uint16_t id);
  void put_alloc(Domain& domain, const Alloc& event);
  absl::Status put_block_event(EventId id, const BlockEvent& event);
  absl::Status make_room(Domain& domain, std::uint64_t time_us, std::size_t bytes);
  absl::Status take_ids(Domain& domain);
  // Null if no allocation has that id.
  const Domain* owner_of(std::uint64_t id) const;
  void open_packet(Domain& domain, std::uint64_t time_us);
  void write_meaning(std::uint64_t code);
  std::vector<Location> meaning_of(std::uint64_t code) const;
  void put_location(std::uint64_t code, std::span<const Location> locations);

  absl::Status write_all();
  absl::Status write_info();
  absl::Status write_locations();
  absl::Status write_events(Domain& domain);
  absl::Status write(std::span<const std::byte> packet);
  void drop_open_packets();
  void start_afresh();
  bool is_time_to_start_afresh() const;

  Sink sink_;
  LocationsOf locations_of_;
  TraceInfo info_;
  int version_;
  bool info_written_ = false;
  // The result of a write that was necessary within an event.
  absl::Status postponed_;

  std::map<std::uint16_t, std::unique_ptr<Domain>> domains_;
  Domain* last_domain_ = nullptr;
  // Owners of ids 0 ... 9,999, of 10,000 ... 19,999, and so on.
  std::vector<Domain*> lot_owners_;
  std::uint64_t oldest_open_us_ = 0;
  bool any_open_ = false;

  std::vector<std::byte> location_buffer_;
  ByteWriter locations_out_;
  LocationEncoder location_encoder_;
  absl::flat_hash_map<std::uint64_t, Meaning> meanings_;

  std::uint64_t fresh_starts_ = 1;
  // Since the last fresh start: all bytes, and those of locations.
  std::uint64_t bytes_since_ = 0;
  std::uint64_t meaning_bytes_ = 0;

  std::uint64_t bytes_written_ = 0;
  std::uint64_t events_lost_ = 0;
};

}  // namespace memprofd::ctf
