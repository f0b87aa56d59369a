// SPDX-License-Identifier: Apache-2.0
// Maps return addresses to source locations.
//
// Locations are numbered: equal ones have one number within a symbolizer, so that ten thousand
// callstacks are compared by numbers and not by names. Their texts are always valid UTF-8.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "daemon/model/callstack.h"
#include "daemon/model/location.h"
#include "daemon/util/byte_budget.h"
#include "daemon/util/ids.h"
#include "daemon/util/stable_spans.h"
#include "daemon/util/stable_vector.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// Dense numbers within one symbolizer: of a location; of a return address with the
// index of an allocation.
using LocationId = Id<struct LocationIdTag, std::uint32_t>;
using FrameId = Id<struct FrameIdTag, std::uint32_t>;

// Thread-safe. Results are cached and stay valid after the target has exited.
class Symbolizer {
 public:
  static constexpr LocationId kUnknown{0};    // "(unknown)", see kUnknownFrame
  static constexpr LocationId kHidden{1};     // "(hidden)", for those who leave locations out
  static constexpr FrameId kUnknownFrame{0};  // address 0; in the place of an empty callstack
  // Maximum number of frames, more than any program has. Further ones are unknown.
  static constexpr std::size_t kMaxFrames = 1u << 20;

  // A frame and how many times in a row it is called.
  struct FrameRun {
    FrameId frame;
    std::uint32_t times = 0;
  };

  // budget: the target's, charged for all results; null: no limit. Frames that do not fit are shown
  // as their address, or are kUnknownFrame.
  explicit Symbolizer(SharedBudget budget = nullptr);
  virtual ~Symbolizer() = default;
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  // alloc_idx selects among combined allocations; -1 takes the first that has debug
  // information, as the runtime does. Or kDebuginfoIsInnermost.
  FrameId frame_id(std::uint64_t return_address, std::int32_t alloc_idx);
  // The frames of a callstack, innermost first. The callstack of an id must not change; callstacks
  // of id 0 are not cached but stored in scratch.
  std::span<const FrameRun> frames(const Callstack& callstack, std::vector<FrameRun>& scratch);
  // The first of them, or kUnknownFrame.
  FrameId innermost(const Callstack& callstack);

  // The locations of a frame that this symbolizer numbered; valid as long as this. Innermost
  // inlined function first; never empty (falls back to the ELF symbol, then to the address in hex).
  std::span<const LocationId> locations(FrameId id) const { return frames_[id.value()].locations; }
  std::uint64_t return_address(FrameId id) const { return frames_[id.value()].return_address; }
  const Location& location(LocationId id) const { return locations_[id.value()]; }
  // Number of frames with incomplete names due to the memory limit. Any thread.
  std::uint64_t frames_without_room() const { return without_room_; }
  // The build id in hex of a location's library, or of the program if library is empty. Empty:
  // unknown. Any thread.
  virtual std::string build_id(std::string_view library) {
    (void)library;
    return {};
  }
  // Copies of the locations of a frame.
  std::vector<Location> locations(std::uint64_t return_address, std::int32_t alloc_idx);

 protected:
  // Called once for each return address and index, never concurrently.
  virtual std::vector<Location> look_up(std::uint64_t return_address, std::int32_t alloc_idx) = 0;
  // New code has become known: unknown frames are looked up again on demand.
  void forget_unknown();

 private:
  struct Frame {
    std::uint64_t return_address = 0;
    std::span<const LocationId> locations;
  };
  struct ByContent {
    using is_transparent = void;
    const StableVector<Location>* locations;

    const Location& of(LocationId id) const { return (*locations)[id.value()]; }
    static const Location& of(const Location& location) { return location; }
    template <typename T>
    std::size_t operator()(const T& one) const {
      return absl::HashOf(of(one));
    }
    template <typename T, typename U>
    bool operator()(const T& a, const U& b) const {
      return of(a) == of(b);
    }
  };

  // Returns nullopt if they do not fit with `spare` bytes left.
  std::optional<LocationId> number(const Location& found, std::uint64_t spare)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<FrameId> add(std::uint64_t return_address, const std::vector<Location>& found,
                             std::uint64_t spare) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<FrameId> add_whole(std::uint64_t return_address, std::int32_t alloc_idx)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  FrameId add_found(std::uint64_t return_address, std::int32_t alloc_idx)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  SharedMutex mutex_;
  ByteCharge charge_ ABSL_GUARDED_BY(mutex_);
  bool no_more_names_ ABSL_GUARDED_BY(mutex_) = false;
  bool full_ ABSL_GUARDED_BY(mutex_) = false;  // not even an address fits
  std::atomic<std::uint64_t> without_room_{0};
  // Written under the mutex; an element is read by those who were given its number.
  StableVector<Location> locations_;
  StableVector<Frame> frames_;
  absl::flat_hash_set<LocationId, ByContent, ByContent> location_ids_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::pair<std::uint64_t, std::int32_t>, FrameId> frame_ids_
      ABSL_GUARDED_BY(mutex_);
  StableSpans<LocationId> spans_ ABSL_GUARDED_BY(mutex_);  // storage of the spans in frames_
  // Indexed by CallstackId; if not seen yet: kUnknownFrame, empty.
  std::vector<FrameId> innermost_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::span<const FrameRun>> callstacks_ ABSL_GUARDED_BY(mutex_);
  StableSpans<FrameRun> runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
