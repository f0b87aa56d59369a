// SPDX-License-Identifier: Apache-2.0
// The frames of one query: omits hidden locations from callstacks.
//
// Example, `List.map` hidden; entries innermost first, 0x20 repeated:
//
//   entry          symbolized                    visible locations
//   0x10           Cache.add (inlined), Main.f   {Cache.add, Main.f}
//   0x20 + run 3   List.map                      {}
//   0x30           Main.main                     {Main.main}
//
//   site: Cache.add.  walk: ({Cache.add, Main.f}, 1), ({Main.main}, 1).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "daemon/history/profile.h"
#include "daemon/model/callstack.h"
#include "daemon/symbolize/symbolizer.h"

namespace memprofd {

// Not thread-safe.
class VisibleFrames {
 public:
  // Maximum number of locations shown of a callstack.
  static constexpr std::size_t kMaxLocations = 256;
  using Locations = std::span<const LocationId>;  // innermost first

  // Both must outlive this. hidden: null if no location is hidden.
  VisibleFrames(Symbolizer& symbolizer, const LocationMatcher* hidden,
                SiteFrame site_frame = SiteFrame::kInnermost)
      : symbolizer_(symbolizer), hidden_(hidden), site_frame_(site_frame) {}
  explicit VisibleFrames(const TargetProfile& profile)
      : VisibleFrames(*profile.symbolizer, profile.hidden.get(), profile.site_frame) {}

  // The visible locations of a frame; valid until the next call.
  Locations locations(FrameId frame);
  // Calls fn(locations, times) for each run of a frame with visible locations, innermost first,
  // until it returns false. If there is none, calls it once: with "(unknown)" if the callstack is
  // empty, otherwise with "(hidden)". The locations are valid during the call, which must not read
  // another callstack.
  template <typename Fn>
  void walk(const Callstack& callstack, Fn fn);
  // The visible location that names the site, according to site_frame. Allocations by the library's
  // Bigarray functions always belong to their caller. If all locations are skipped, the innermost.
  LocationId site(const Callstack& callstack);
  // True if the location may name a site, according to site_frame.
  bool names_sites(LocationId id) { return !is_passed_over(id); }
  // Returns at most kMaxLocations.
  std::vector<LocationId> location_ids(const Callstack& callstack);
  std::vector<Location> locations(const Callstack& callstack);

  const Location& location(LocationId id) const { return symbolizer_.location(id); }

 private:
  enum class Verdict : std::uint8_t { kOpen, kVisible, kHidden };

  bool is_hidden(LocationId id);
  bool is_passed_over(LocationId id);

  Symbolizer& symbolizer_;
  const LocationMatcher* const hidden_;
  const SiteFrame site_frame_;
  std::vector<Verdict> verdicts_;    // indexed by LocationId
  std::vector<Verdict> no_sites_;    // indexed by LocationId: locations that cannot name a site are
                                     // hidden
  std::vector<LocationId> visible_;  // locations of the last frame
  std::vector<Symbolizer::FrameRun> scratch_;
};

template <typename Fn>
void VisibleFrames::walk(const Callstack& callstack, Fn fn) {
  const std::span<const Symbolizer::FrameRun> runs = symbolizer_.frames(callstack, scratch_);
  bool any_visible = false;
  for (const Symbolizer::FrameRun& run : runs) {
    const Locations visible = locations(run.frame);
    if (visible.empty()) continue;
    any_visible = true;
    if (!fn(visible, std::uint64_t{run.times})) return;
  }
  if (any_visible) return;
  const LocationId nothing = runs.empty() ? Symbolizer::kUnknown : Symbolizer::kHidden;
  fn(Locations(&nothing, 1), std::uint64_t{1});
}

}  // namespace memprofd
