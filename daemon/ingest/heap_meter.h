// SPDX-License-Identifier: Apache-2.0
// Observe mode: measures how much each domain has allocated between two hits.
//
// The runtime counts the words of minor heaps that were collected. The current one fills from its
// end downwards:
//
//     allocated so far = stat_minor_words + (young_end - young_ptr) / 8
//
// A hit represents the difference to the previous hit in its domain. The difference includes lost
// hits, so that sums are exact.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "daemon/ingest/decoder.h"
#include "daemon/util/drops.h"

namespace memprofd {

class HeapMeter {
 public:
  enum class Format { kDoubles, kIntegers };  // format of the runtime's counters: OCaml 4, OCaml 5
  static constexpr std::size_t kMaxDomains = 4096;

  // drops must outlive the meter.
  HeapMeter(Format format, DropCounters& drops) : format_(format), drops_(drops) {}

  // Sets the current counters. Uses only them and the domain state.
  void begin(const ObservedView& counters) { (void)advance(counters); }
  // Words allocated in the minor heap since the previous hit. For a new domain: all words if it has
  // not collected yet, otherwise 0. Never negative.
  double advance(const ObservedView& hit);

  // Minor, promoted and major words of all domains so far, including those whose state another
  // domain has reused.
  std::array<double, 3> totals() const;

 private:
  using Words = std::array<double, 3>;

  std::optional<Words> read(const ObservedView& hit) const;

  Format format_;
  DropCounters& drops_;
  absl::flat_hash_map<std::uint64_t, Words> domains_;  // by domain state
  Words ended_{};
};

}  // namespace memprofd
