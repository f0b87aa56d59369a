// SPDX-License-Identifier: Apache-2.0
// Traces in memory: a recorder of a reader's output, and a source of realistic events.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "daemon/trace/ctf/ctf_reader.h"
#include "daemon/trace/ctf/ctf_writer.h"

namespace memprofd::ctf::testing {

using Bytes = std::vector<std::byte>;

struct OwnedAlloc {
  Alloc event;  // its callstack is not used
  std::vector<std::uint64_t> callstack;

  OwnedAlloc(const Alloc& from, std::vector<std::uint64_t> codes)
      : event(from), callstack(std::move(codes)) {
    event.callstack = {};
  }
  Alloc alloc() const {
    Alloc with_callstack = event;
    with_callstack.callstack = callstack;
    return with_callstack;
  }
  bool operator==(const OwnedAlloc& other) const {
    const auto key = [](const OwnedAlloc& a) {
      return std::tuple(a.event.time_us, a.event.id, a.event.domain, a.event.length_words,
                        a.event.n_samples, a.event.source, a.callstack);
    };
    return key(*this) == key(other);
  }
};
using Event = std::variant<OwnedAlloc, Promote, Collect>;

inline std::uint64_t time_of(const Event& event) {
  const auto* alloc = std::get_if<OwnedAlloc>(&event);
  if (alloc != nullptr) return alloc->event.time_us;
  const auto* promote = std::get_if<Promote>(&event);
  return promote != nullptr ? promote->time_us : std::get<Collect>(event).time_us;
}

struct Trace : Visitor {
  TraceInfo info;
  std::map<std::uint64_t, std::vector<Location>> locations;
  std::vector<Event> events;
  ReadSummary summary;

  void on_info(const TraceInfo& it) override { info = it; }
  void on_location(std::uint64_t code, std::span<const Location> at) override {
    locations[code].assign(at.begin(), at.end());
  }
  void on_alloc(const Alloc& event) override {
    events.emplace_back(OwnedAlloc(event, {event.callstack.begin(), event.callstack.end()}));
  }
  void on_promote(const Promote& event) override { events.emplace_back(event); }
  void on_collect(const Collect& event) override { events.emplace_back(event); }
};

inline Trace read_all(std::span<const std::byte> bytes) {
  Trace trace;
  absl::StatusOr<Reader> reader = Reader::open(bytes);
  if (reader.ok()) {
    trace.summary = reader->read(trace);
  } else {
    trace.summary.read_error = reader.status();
  }
  return trace;
}

inline std::vector<Location> locations_of_code(std::uint64_t code) {
  std::vector<Location> locations;
  for (std::uint64_t depth = 0; depth <= code % 3; ++depth) {
    locations.push_back({.file = "lib/module_" + std::to_string((code + depth) % 40) + ".ml",
                         .function = "Module.function_" + std::to_string(code % 130 + depth),
                         .line = static_cast<std::uint32_t>(code % 4000),
                         .start_column = static_cast<std::uint32_t>(code % 80),
                         .end_column = static_cast<std::uint32_t>(code % 80 + 20)});
  }
  return locations;
}

inline TraceInfo example_info() {
  return {.sampling_rate = 1e-3,
          .executable = "/srv/shop",
          .host = "host1",
          .ocamlrunparam = "s=4k",
          .context = "a test",
          .pid = 4242,
          .start_time_us = 1'700'000'000'000'000};
}

// Stores all packets with their positions.
class MemoryFile {
 public:
  Writer::Sink sink() {
    return [this](std::span<const std::byte> packet) {
      offsets_.push_back(bytes_.size());
      bytes_.insert(bytes_.end(), packet.begin(), packet.end());
      return absl::OkStatus();
    };
  }
  const Bytes& bytes() const { return bytes_; }
  const std::vector<std::size_t>& offsets() const { return offsets_; }
  std::span<const std::byte> packet(std::size_t i) const {
    const std::size_t end = i + 1 < offsets_.size() ? offsets_[i + 1] : bytes_.size();
    return std::span(bytes_).subspan(offsets_[i], end - offsets_[i]);
  }
  std::string text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  Bytes bytes_;
  std::vector<std::size_t> offsets_;
};

// Writes recorded events; their ids are replaced by the writer's.
class Replay {
 public:
  explicit Replay(Writer& writer) : writer_(writer) {}
  absl::Status put(const Event& event) {
    if (const auto* alloc = std::get_if<OwnedAlloc>(&event)) {
      const absl::StatusOr<std::uint64_t> id = writer_.alloc(alloc->alloc());
      if (id.ok()) ids_[alloc->event.id] = *id;
      return id.status();
    }
    if (const auto* promote = std::get_if<Promote>(&event)) {
      return writer_.promote(renamed(*promote));
    }
    return writer_.collect(renamed(std::get<Collect>(event)));
  }

 private:
  BlockEvent renamed(BlockEvent event) const {
    const auto id = ids_.find(event.id);
    if (id != ids_.end()) event.id = id->second;
    return event;
  }
  Writer& writer_;
  std::map<std::uint64_t, std::uint64_t> ids_;
};

// Writes a parsed trace again, with the same locations of its codes.
inline absl::Status rewrite(const Trace& trace, int version, MemoryFile& file) {
  Writer writer(file.sink(), [&trace](std::uint64_t code) { return trace.locations.at(code); },
                trace.info, {.version = version});
  Replay replay(writer);
  for (const Event& event : trace.events) {
    if (absl::Status status = replay.put(event); !status.ok()) return status;
  }
  return writer.flush();
}

// A program that calls and returns, allocates, and whose blocks mostly die young. Times increase by
// at least one microsecond.
class Workload {
 public:
  explicit Workload(unsigned seed, std::uint16_t domains = 1) : random_(seed), domains_(domains) {
    callstacks_.resize(domains);
  }

  Event next() {
    time_us_ += 1 + random_() % 40;
    const auto domain = static_cast<std::uint16_t>(random_() % domains_);
    if (live_.size() > 30 && random_() % 2 == 0) return end_of_a_block();
    move(callstacks_[domain]);
    live_.push_back({next_id_, domain});
    const bool plain = random_() % 20 != 0;
    return OwnedAlloc({.time_us = time_us_,
                       .id = next_id_++,
                       .domain = domain,
                       .length_words = plain ? 1 + random_() % 16 : random_() % 100'000,
                       .n_samples = plain ? 1 : 1 + random_() % 100,
                       .source = plain ? Source::kMinor : static_cast<Source>(random_() % 3)},
                      callstacks_[domain]);
  }

 private:
  struct Block {
    std::uint64_t id;
    std::uint16_t domain;
  };
  Event end_of_a_block() {
    const std::size_t i =
        random_() % 20 == 0 ? random_() % live_.size() : live_.size() - 1 - random_() % 20;
    const BlockEvent event{.time_us = time_us_, .id = live_[i].id, .domain = live_[i].domain};
    if (random_() % 12 == 0) return Promote{event};
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
    return Collect{event};
  }
  // Each function calls four others, mostly the first.
  void move(std::vector<std::uint64_t>& callstack) {
    if (callstack.empty()) callstack = {0x40'0000, 0x40'0100, 0x40'0200};
    callstack.resize(3 + random_() % (callstack.size() - 2));
    for (std::uint64_t n = 1 + random_() % 8; n > 0; --n) {
      const std::uint64_t branch = random_() % 4 == 0 ? random_() % 4 : 0;
      callstack.push_back(0x40'0000 + (callstack.back() * 7 + branch * 48 + 16) % 0x8000);
    }
  }

  std::mt19937 random_;
  std::uint16_t domains_;
  std::uint64_t time_us_ = example_info().start_time_us;
  std::uint64_t next_id_ = 0;
  std::vector<std::vector<std::uint64_t>> callstacks_;
  std::vector<Block> live_;
};

inline MemoryFile write_workload(unsigned seed, int events, int version, std::uint16_t domains = 1,
                                 int flush_every = 0) {
  MemoryFile file;
  Writer writer(file.sink(), locations_of_code, example_info(), {.version = version});
  Workload workload(seed, domains);
  Replay replay(writer);
  for (int i = 0; i < events; ++i) {
    if (!replay.put(workload.next()).ok()) return {};
    if (flush_every > 0 && i % flush_every == flush_every - 1 && !writer.flush().ok()) return {};
  }
  if (!writer.flush().ok()) return {};
  return file;
}

}  // namespace memprofd::ctf::testing
