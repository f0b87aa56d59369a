// The frames of one query: each return address is symbolized once, hidden
// locations are left out, and what remains is numbered, so that ten thousand
// rows are compared by numbers and not by names.
//
// Example, `List.map` hidden; entries innermost first, 0x20 repeated:
//
//   entry          symbolized                    frame   visible locations
//   0x10           Cache.add (inlined), Main.f   0       {Cache.add, Main.f}
//   0x20 + run 3   List.map                      1       {}
//   0x30           Main.main                     2       {Main.main}
//
//   site: Cache.add.  walk: (frame 0, 1), (frame 2, 1).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/aggregate/callstack.h"
#include "daemon/store/profile.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/util/ids.h"

namespace memprofd {

// Dense index of a location within one VisibleFrames; equal locations share it.
using LocationId = Id<struct LocationIdTag, std::uint32_t>;

// Not thread-safe.
class VisibleFrames {
 public:
  // Locations shown of a callstack at most.
  static constexpr std::size_t kMaxLocations = 256;
  using Locations = std::span<const LocationId>;  // innermost first

  // Both must outlive this. hidden: null when nothing is.
  VisibleFrames(Symbolizer& symbolizer, const LocationMatcher* hidden);
  explicit VisibleFrames(const TargetProfile& profile)
      : VisibleFrames(*profile.symbolizer, profile.hidden.get()) {
    frames_.reserve(profile.rows.size());
    ids_.reserve(profile.rows.size());
  }

  // Calls fn(locations, times) for each run of a frame with visible locations,
  // innermost first, until it answers false. When there is none: once, with
  // "(unknown)" if the callstack is empty, else with "(hidden)". The locations
  // are valid during the call.
  template <typename Fn>
  void walk(const Callstack& callstack, Fn fn);
  // Innermost visible location.
  LocationId site(const Callstack& callstack);
  // At most kMaxLocations.
  std::vector<LocationId> location_ids(const Callstack& callstack);
  std::vector<Location> locations(const Callstack& callstack);

  const Location& location(LocationId id) const { return *by_id_[id.value()]; }
  // For keeping without a copy.
  const std::shared_ptr<const Location>& shared(LocationId id) const { return by_id_[id.value()]; }
  std::size_t size() const { return by_id_.size(); }

 private:
  // With its hash, which is long to compute.
  struct LocationKey {
    explicit LocationKey(const Location& location);

    friend bool operator==(const LocationKey& a, const LocationKey& b) {
      return a.hash == b.hash && *a.location == *b.location;
    }
    template <typename H>
    friend H AbslHashValue(H h, const LocationKey& key) {
      return H::combine(std::move(h), key.hash);
    }

    const Location* location;
    std::size_t hash;
  };
  struct Frame {
    std::uint32_t first = 0;  // in pool_
    std::uint32_t count = 0;
  };

  Locations frame(std::uint64_t address, std::int32_t alloc_idx);
  Frame look_up(std::uint64_t address, std::int32_t alloc_idx);
  Locations span_of(Frame frame) const { return {pool_.data() + frame.first, frame.count}; }
  LocationId intern(Location location);

  Symbolizer& symbolizer_;
  const LocationMatcher* const hidden_;
  absl::flat_hash_map<std::pair<std::uint64_t, std::int32_t>, Frame> frames_;
  std::vector<LocationId> pool_;
  std::vector<std::shared_ptr<const Location>> by_id_;
  // Its keys point to those of by_id_.
  absl::flat_hash_map<LocationKey, LocationId> ids_;
};

template <typename Fn>
void VisibleFrames::walk(const Callstack& callstack, Fn fn) {
  bool innermost = true;
  bool any_visible = false;
  bool go_on = true;
  const auto visit = [&](std::uint64_t address, std::int32_t alloc_idx, std::uint64_t times) {
    if (!go_on || times == 0) return;
    const Locations visible = frame(address, alloc_idx);
    if (visible.empty()) return;
    any_visible = true;
    go_on = fn(visible, times);
  };
  callstack.for_each_run([&](std::uint64_t address, std::uint64_t times) {
    // alloc_idx belongs to the innermost frame; further ones, also of the same
    // address, are calls.
    if (std::exchange(innermost, false)) {
      visit(address, callstack.alloc_idx, 1);
      --times;
    }
    visit(address, -1, times);
  });
  if (any_visible) return;
  const LocationId nothing = intern(Location{.function = innermost ? "(unknown)" : "(hidden)"});
  fn(Locations(&nothing, 1), std::uint64_t{1});
}

}  // namespace memprofd
