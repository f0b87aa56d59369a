// SPDX-License-Identifier: Apache-2.0
#include <initializer_list>
#include <string_view>
#include <utility>

#include "daemon/trace/ctf/ctf_reader.h"
#include "daemon/util/units.h"
#include "fmt/format.h"

namespace memprofd::ctf {

// Packets of other processes, and events that the writer itself omitted, are not losses.
bool ReadSummary::complete() const {
  return packets_truncated + packets_damaged + allocs_missing + callstacks_lost +
                 codes_unexplained + locations_partial + cache_disagreements + packets_early ==
             0 &&
         read_error.ok();
}

std::string ReadSummary::losses() const {
  std::string text;
  const auto add = [&text](std::uint64_t count, std::string_view one, std::string_view many) {
    if (count == 0) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_count(count),
                        count == 1 ? one : many);
  };
  add(packets_truncated, "truncated packet", "truncated packets");
  add(packets_damaged, "damaged stretch", "damaged stretches");
  add(packets_foreign, "packet of another process", "packets of other processes");
  if (bytes_lost > 0) {
    text += fmt::format(" ({} of {})", format_bytes(static_cast<double>(bytes_lost)),
                        format_bytes(static_cast<double>(bytes)));
  }
  add(allocs_missing, "missing sample", "missing samples");
  add(callstacks_lost, "unknown callstack", "unknown callstacks");
  add(codes_unexplained, "address without location", "addresses without location");
  add(locations_partial, "location with lost names", "locations with lost names");
  add(cache_disagreements, "packet that does not continue those before",
      "packets that do not continue those before");
  add(packets_early, "packet out of order", "packets out of order");
  if (!read_error.ok()) {
    text += fmt::format("{}the rest of the file cannot be read: {}", text.empty() ? "" : ", ",
                        std::string(read_error.message()));
  }
  return text;
}

}  // namespace memprofd::ctf
