// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary bytes to the reader of the files in which targets outlive memprofd, and asks what
// it makes of them as a report would. The input is records without checksums, which are put in.
//
// tests/unit/state/state_fuzz_test.cc drives it in every build, make fuzz for as long as one likes.
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "daemon/query/range_counter.h"
#include "daemon/state/record_log.h"
#include "daemon/state/target_reader.h"
#include "tests/kit/memory_file.h"

namespace memprofd::state_fuzz {

constexpr std::size_t kLogHeadBytes = 12;
constexpr std::size_t kRecordHeadBytes = 8;

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "state_fuzz: %s\n", what);
  std::abort();
}

inline void put_record_checksums(std::string& bytes) {
  std::size_t at = kLogHeadBytes;
  while (at + kRecordHeadBytes <= bytes.size()) {
    std::uint32_t size = 0;
    std::memcpy(&size, &bytes[at], sizeof size);
    if (size > bytes.size() - at - kRecordHeadBytes) break;
    const auto* head = reinterpret_cast<const Bytef*>(&bytes[at]);
    uLong sum = ::crc32(0, head, sizeof size);
    sum = ::crc32(sum, head + kRecordHeadBytes, size);
    const auto stored = static_cast<std::uint32_t>(sum);
    std::memcpy(&bytes[at + sizeof size], &stored, sizeof stored);
    at += kRecordHeadBytes + size;
  }
}

inline void ask(const TargetSnapshot& target) {
  for (const ProfileRow& row : target.rows) {
    require(row.callstack != nullptr, "a row without a callstack");
    require(target.symbolizer != nullptr, "no names");
    for (const std::uint64_t address : row.callstack->expand(20)) {
      require(!target.symbolizer->locations(address, 0).empty(), "an address without a name");
    }
  }
  const RangeCounter counter(target);
  for (const auto& tier : target.history.tiers) {
    for (const HistoryWindowPtr& window : tier) {
      require(window->begin_ns() <= window->end_ns(), "a window that ends before it begins");
      counter.flows(window->begin_ns(), window->end_ns());
      counter.live_at(window->end_ns());
    }
  }
}

}  // namespace memprofd::state_fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  memprofd::state_fuzz::put_record_checksums(bytes);
  const memprofd::UniqueFd file = memprofd::memory_file(bytes);
  const auto stored = memprofd::read_target("/proc/self/fd/" + std::to_string(file.get()));
  if (!stored.ok()) return 0;
  memprofd::state_fuzz::require(stored->snapshot != nullptr, "no snapshot");
  memprofd::state_fuzz::ask(*stored->snapshot);
  return 0;
}
