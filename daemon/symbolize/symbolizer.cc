// SPDX-License-Identifier: Apache-2.0
#include "daemon/symbolize/symbolizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

// Share of the remaining room for names that is reserved for bare addresses.
constexpr std::uint64_t kShareForAddresses = 8;
// Maximum size of a frame.
constexpr std::uint64_t kLargeFrameBytes = 4u << 20;
// Vectors and hash tables double: an element may stand for two.
constexpr std::uint64_t kFrameBytes =
    2 * (sizeof(std::uint64_t) + sizeof(std::span<const LocationId>) +
         sizeof(std::pair<std::pair<std::uint64_t, std::int32_t>, FrameId>));

std::uint64_t bytes_of(const std::string& text) {
  constexpr std::size_t kInline = 15;
  return text.capacity() > kInline ? text.capacity() + 1 : 0;
}

std::uint64_t bytes_of(const Location& location) {
  return 2 * (sizeof(Location) + sizeof(LocationId)) + bytes_of(location.function) +
         bytes_of(location.file) + bytes_of(location.library);
}

std::uint32_t clamp_times(std::uint64_t times) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(times, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

// The fixed numbers exist whether or not they fit.
Symbolizer::Symbolizer(SharedBudget budget)
    : location_ids_(0, ByContent{&locations_}, ByContent{&locations_}) {
  const MutexLock lock(mutex_);
  add(0, {{.function = "(unknown)"}}, 0);
  number({.function = "(hidden)"}, 0);
  charge_ = ByteCharge(std::move(budget));
}

std::optional<LocationId> Symbolizer::number(const Location& found, std::uint64_t spare) {
  Location location{.function = valid_utf8(found.function),
                    .file = valid_utf8(found.file),
                    .line = found.line,
                    .start_column = found.start_column,
                    .end_column = found.end_column,
                    .library = valid_utf8(found.library)};
  if (const auto it = location_ids_.find(location); it != location_ids_.end()) return *it;
  if (!charge_.grow(bytes_of(location), spare)) return std::nullopt;
  const LocationId id(static_cast<std::uint32_t>(locations_.push_back(std::move(location))));
  location_ids_.insert(id);
  return id;
}

std::optional<FrameId> Symbolizer::add(std::uint64_t return_address,
                                       const std::vector<Location>& found, std::uint64_t spare) {
  std::vector<LocationId> ids;
  for (const Location& location : found) {
    const std::optional<LocationId> id = number(location, spare);
    if (!id) return std::nullopt;
    ids.push_back(*id);
  }
  if (!charge_.grow(kFrameBytes + ids.size() * sizeof(LocationId), spare)) return std::nullopt;
  return FrameId(static_cast<std::uint32_t>(
      frames_.push_back({.return_address = return_address, .locations = spans_.keep(ids)})));
}

// Names, sources and inlined functions leave some room for bare addresses. Returns nullopt if they
// do not fit. Once names of the target itself did not fit, no more time is spent on any names.
std::optional<FrameId> Symbolizer::add_whole(std::uint64_t return_address, std::int32_t alloc_idx) {
  if (no_more_names_) return std::nullopt;
  const SharedBudget& budget = charge_.budget();
  const std::uint64_t spare = budget != nullptr ? budget->limit() / kShareForAddresses : 0;
  const auto frame = add(return_address, look_up(return_address, alloc_idx), spare);
  if (!frame) no_more_names_ = budget->limit() - budget->used() < spare + kLargeFrameBytes;
  return frame;
}

FrameId Symbolizer::add_found(std::uint64_t return_address, std::int32_t alloc_idx) {
  if (!full_ && frames_.size() < kMaxFrames) {
    if (const auto whole = add_whole(return_address, alloc_idx)) return *whole;
    const std::vector<Location> bare = {{.function = fmt::format("{:#x}", return_address)}};
    const auto address = add(return_address, bare, 0);
    full_ = !address;
    if (address) {
      ++without_room_;
      return *address;
    }
  }
  ++without_room_;
  return kUnknownFrame;
}

FrameId Symbolizer::frame_id(std::uint64_t return_address, std::int32_t alloc_idx) {
  const std::pair key(return_address, alloc_idx);
  {
    const ReaderLock lock(mutex_);
    if (const auto known = frame_ids_.find(key); known != frame_ids_.end()) return known->second;
  }
  const MutexLock lock(mutex_);
  if (const auto known = frame_ids_.find(key); known != frame_ids_.end()) return known->second;
  const FrameId id = add_found(return_address, alloc_idx);
  if (id != kUnknownFrame) frame_ids_.emplace(key, id);
  return id;
}

void Symbolizer::forget_unknown() {
  const MutexLock lock(mutex_);
  const auto forgotten = absl::erase_if(frame_ids_, [&](const auto& known) {
    const Location& outermost = location(locations(known.second).back());
    return known.second != kUnknownFrame && outermost.library.empty();
  });
  if (forgotten == 0) return;
  innermost_.clear();
  callstacks_.clear();
}

FrameId Symbolizer::innermost(const Callstack& callstack) {
  const std::size_t id = callstack.id.value();
  {
    const ReaderLock lock(mutex_);
    if (id < innermost_.size() && innermost_[id] != kUnknownFrame) return innermost_[id];
  }
  const std::optional<std::uint64_t> address = callstack.innermost();
  const FrameId result = address ? frame_id(*address, callstack.alloc_idx) : kUnknownFrame;
  if (callstack.id == CallstackId()) return result;
  const MutexLock lock(mutex_);
  if (id >= innermost_.size()) innermost_.resize(id + 1);
  return innermost_[id] = result;
}

std::span<const Symbolizer::FrameRun> Symbolizer::frames(const Callstack& callstack,
                                                         std::vector<FrameRun>& scratch) {
  const std::size_t id = callstack.id.value();
  {
    const ReaderLock lock(mutex_);
    if (id < callstacks_.size() && !callstacks_[id].empty()) return callstacks_[id];
  }
  scratch.clear();
  callstack.for_each_frame([&](std::uint64_t address, std::int32_t alloc_idx, std::uint64_t times) {
    scratch.push_back({frame_id(address, alloc_idx), clamp_times(times)});
  });
  if (callstack.id == CallstackId()) return scratch;
  const MutexLock lock(mutex_);
  if (id >= callstacks_.size()) callstacks_.resize(id + 1);
  if (!callstacks_[id].empty()) return callstacks_[id];
  if (!charge_.grow(scratch.size() * sizeof(FrameRun))) return scratch;
  return callstacks_[id] = runs_.keep(scratch);
}

std::vector<Location> Symbolizer::locations(std::uint64_t return_address, std::int32_t alloc_idx) {
  std::vector<Location> result;
  for (const LocationId id : locations(frame_id(return_address, alloc_idx))) {
    result.push_back(location(id));
  }
  return result;
}

}  // namespace memprofd
