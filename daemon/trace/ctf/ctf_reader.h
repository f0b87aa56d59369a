// SPDX-License-Identifier: Apache-2.0
// Reads traces of versions 2 and 3, of any writer, damaged or not.
//
// A packet counts as a whole: it is checked before the first of its events is passed on. After a
// damaged packet, reading continues at the next good one. References of later packets to lost ones
// are then unknown rather than wrong: such an allocation has an empty callstack. A file has no
// checksums, so damage that leaves a packet well-formed is found only when the writer's table of
// codes differs from the reader's (cache_disagreements).
//
// Memory is bounded: the window on the file, 0.3 MB for each of at most
// kMaxDomains domains, 16 bytes for each code in the file, one callstack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/trace/ctf/ctf_format.h"
#include "daemon/trace/ctf/ctf_source.h"

namespace memprofd::ctf {

// Receives a trace in the order of the file: by time within a domain, while domains may be up to 30
// s apart. Arguments are valid during the call only.
class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual void on_info(const TraceInfo& /*info*/) {}
  // Called before the first callstack with this code; once, unless its meaning was lost and is
  // found later in the file. Caller before callee; may be empty.
  virtual void on_location(std::uint64_t /*code*/, std::span<const Location> /*locations*/) {}
  virtual void on_alloc(const Alloc& /*event*/) {}
  virtual void on_promote(const Promote& /*event*/) {}
  virtual void on_collect(const Collect& /*event*/) {}
};

struct ReadSummary {
  std::uint64_t packets = 0;  // read
  std::uint64_t packets_truncated = 0;
  std::uint64_t packets_damaged = 0;  // damaged ranges, each of one packet or more
  std::uint64_t packets_foreign = 0;  // with another pid
  std::uint64_t bytes = 0;            // size of the file
  std::uint64_t bytes_lost = 0;       // in the packets that were skipped, and between packets

  std::uint64_t allocs = 0;
  std::uint64_t promotes = 0;
  std::uint64_t collects = 0;
  std::uint64_t locations = 0;

  std::uint64_t allocs_missing = 0;       // according to gaps in the ids; version 2 only
  std::uint64_t callstacks_lost = 0;      // allocations with an empty one because of a loss
  std::uint64_t callstacks_cut = 0;       // truncated by the writer
  std::uint64_t codes_unexplained = 0;    // used without a preceding location
  std::uint64_t locations_partial = 0;    // with names that were lost
  std::uint64_t cache_disagreements = 0;  // packets before which the tables differed
  std::uint64_t packets_early = 0;        // begin before the previous packet of their domain ends

  std::uint64_t first_time_us = 0;  // the trace's start
  std::uint64_t last_time_us = 0;   // time of the last event, or of a later packet without any
  absl::Status read_error;          // the file could not be read to its end

  std::uint64_t events() const { return allocs + promotes + collects; }
  bool complete() const;
  // One line for people about losses; empty if complete.
  std::string losses() const;
};

class Reader {
 public:
  static constexpr std::size_t kMaxDomains = 128;

  // Reads the trace's description. bytes must outlive the reader.
  static absl::StatusOr<Reader> open(std::span<const std::byte> bytes);
  // "-" is the standard input.
  static absl::StatusOr<Reader> open(const std::string& path);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  const TraceInfo& info() const;
  int version() const;

  // Reads the rest of the trace; call it once.
  ReadSummary read(Visitor& visitor);

 private:
  class Impl;
  static absl::StatusOr<Reader> open(ByteSource source, const std::string& name);
  explicit Reader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace memprofd::ctf
