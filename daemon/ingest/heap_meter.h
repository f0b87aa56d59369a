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
//
// Most hits are at a place of the minor heap: its middle, its end, or the next sample of a tracker
// of the program. Such a hit finds each site in proportion to what it allocates. The runtime also
// makes the next allocation a hit to get control, for a signal, a collection of another domain, or
// every 50 ms if there are several threads. That allocation is often the first one after a wait,
// whatever allocates the rest, so the hit leaves its words to the next one. But a domain that
// allocates little may never fill its minor heap before the others collect: once it has collected
// twice without a hit that counts, the next one does.
//
//     hit                    words so far   represents
//     end of the minor heap       262,144      262,144
//     a signal                    270,000            -
//     end of the minor heap       524,288      262,144
//     another domain collects     530,000            -
//     another domain collects     531,000        6,856
//     a signal                    531,100            -
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
  // Words in the minor heap that the hit represents; never negative. For a new domain: all words if
  // it has not collected yet, otherwise 0. nullopt: the next hit represents them.
  std::optional<double> advance(const ObservedView& hit);

  // Minor, promoted and major words of all domains so far, including those whose state another
  // domain has reused.
  std::array<double, 3> totals() const;

 private:
  using Words = std::array<double, 3>;
  struct Domain {
    Words words{};                     // at the last hit
    double represented = 0;            // part of the minor words
    std::uint64_t collected_word = 0;  // the runtime's counter of minor words at the last hit
    int collections = 0;               // seen since the last hit that counted
  };

  std::optional<Words> read(const ObservedView& hit) const;
  static bool is_another(const Domain& domain, const ObservedView& hit, const Words& now);

  Format format_;
  DropCounters& drops_;
  absl::flat_hash_map<std::uint64_t, Domain> domains_;  // by domain state
  Words ended_{};
};

}  // namespace memprofd
