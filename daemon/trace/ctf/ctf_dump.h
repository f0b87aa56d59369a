// SPDX-License-Identifier: Apache-2.0
// A trace as text, one line per event:
//
//   # Memtrace v2, 0.001 samples per word, /srv/app, pid 4242 on host
//   +0.000322 alloc 0 minor 1 sample 65 words: Main.run@main.ml:4:2-19 List.map@list.ml:92:20-23
//   +0.011002 promote 0
//   +0.932000 collect 0
//
// Callstacks run from the outermost frame to the allocation. Version 3 has the
// domain after the id.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/trace/ctf/ctf_reader.h"

namespace memprofd::ctf {

// Names contain '?' for each character that is not printable.
std::string to_string(const Location& location);

class Dumper : public Visitor {
 public:
  // line ends without a newline and is valid during the call.
  using LineSink = std::function<void(std::string_view line)>;
  Dumper(LineSink sink, int version) : sink_(std::move(sink)), version_(version) {}

  void on_info(const TraceInfo& info) override;
  void on_location(std::uint64_t code, std::span<const Location> locations) override;
  void on_alloc(const Alloc& event) override;
  void on_promote(const Promote& event) override { put(event, "promote"); }
  void on_collect(const Collect& event) override { put(event, "collect"); }

 private:
  void begin_line(std::uint64_t time_us, std::string_view what, std::uint64_t id,
                  std::uint16_t domain);
  void put(const BlockEvent& event, std::string_view what);

  LineSink sink_;
  int version_;
  std::uint64_t start_us_ = 0;
  // Each text begins with a space.
  absl::flat_hash_map<std::uint64_t, std::string> texts_;
  std::string line_;
};

absl::StatusOr<ReadSummary> dump_trace_file(const std::string& path, Dumper::LineSink sink);

}  // namespace memprofd::ctf
