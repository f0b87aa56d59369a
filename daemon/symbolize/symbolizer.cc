#include "daemon/symbolize/symbolizer.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

std::uint32_t clamp_times(std::uint64_t times) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(times, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

Symbolizer::Symbolizer() : location_ids_(0, ByContent{&locations_}, ByContent{&locations_}) {
  absl::MutexLock lock(&mutex_);
  add(0, {{.function = "(unknown)"}});
  number({.function = "(hidden)"});
}

LocationId Symbolizer::number(const Location& found) {
  Location location{.function = valid_utf8(found.function),
                    .file = valid_utf8(found.file),
                    .line = found.line,
                    .start_column = found.start_column,
                    .end_column = found.end_column,
                    .module = valid_utf8(found.module)};
  if (const auto it = location_ids_.find(location); it != location_ids_.end()) return *it;
  const LocationId id(static_cast<std::uint32_t>(locations_.push_back(std::move(location))));
  location_ids_.insert(id);
  return id;
}

FrameId Symbolizer::add(std::uint64_t return_address, const std::vector<Location>& found) {
  std::vector<LocationId> ids;
  for (const Location& location : found) ids.push_back(number(location));
  return FrameId(static_cast<std::uint32_t>(
      frames_.push_back({.return_address = return_address, .locations = spans_.keep(ids)})));
}

FrameId Symbolizer::frame_id(std::uint64_t return_address, std::int32_t alloc_idx) {
  const std::pair key(return_address, alloc_idx);
  {
    absl::ReaderMutexLock lock(&mutex_);
    if (const auto known = frame_ids_.find(key); known != frame_ids_.end()) return known->second;
  }
  absl::MutexLock lock(&mutex_);
  if (const auto known = frame_ids_.find(key); known != frame_ids_.end()) return known->second;
  if (frame_ids_.size() >= kMaxFrames) return kUnknownFrame;
  const FrameId id = add(return_address, look_up(return_address, alloc_idx));
  frame_ids_.emplace(key, id);
  return id;
}

void Symbolizer::forget_unknown() {
  absl::MutexLock lock(&mutex_);
  const auto forgotten = absl::erase_if(frame_ids_, [&](const auto& known) {
    const Location& outermost = location(locations(known.second).back());
    return known.second != kUnknownFrame && outermost.module.empty();
  });
  if (forgotten == 0) return;
  innermost_.clear();
  callstacks_.clear();
}

FrameId Symbolizer::innermost(const Callstack& callstack) {
  const std::size_t id = callstack.id.value();
  {
    absl::ReaderMutexLock lock(&mutex_);
    if (id < innermost_.size() && innermost_[id] != kUnknownFrame) return innermost_[id];
  }
  const std::optional<std::uint64_t> address = callstack.innermost();
  const FrameId result = address ? frame_id(*address, callstack.alloc_idx) : kUnknownFrame;
  if (callstack.id == CallstackId()) return result;
  absl::MutexLock lock(&mutex_);
  if (id >= innermost_.size()) innermost_.resize(id + 1);
  return innermost_[id] = result;
}

std::span<const Symbolizer::FrameRun> Symbolizer::frames(const Callstack& callstack,
                                                         std::vector<FrameRun>& scratch) {
  const std::size_t id = callstack.id.value();
  {
    absl::ReaderMutexLock lock(&mutex_);
    if (id < callstacks_.size() && !callstacks_[id].empty()) return callstacks_[id];
  }
  scratch.clear();
  callstack.for_each_frame([&](std::uint64_t address, std::int32_t alloc_idx, std::uint64_t times) {
    scratch.push_back({frame_id(address, alloc_idx), clamp_times(times)});
  });
  if (callstack.id == CallstackId()) return scratch;
  absl::MutexLock lock(&mutex_);
  if (id >= callstacks_.size()) callstacks_.resize(id + 1);
  if (callstacks_[id].empty()) callstacks_[id] = runs_.keep(scratch);
  return callstacks_[id];
}

std::vector<Location> Symbolizer::locations(std::uint64_t return_address, std::int32_t alloc_idx) {
  std::vector<Location> result;
  for (const LocationId id : locations(frame_id(return_address, alloc_idx))) {
    result.push_back(location(id));
  }
  return result;
}

}  // namespace memprofd
