// SPDX-License-Identifier: Apache-2.0
// Events and chunks of them without a target.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "daemon/history/event_log.h"

namespace memprofd::testing {

// An allocation, promotion or deallocation of the block with that id.
inline SampleEvent sample_event(std::uint64_t id, std::uint32_t kind, ClassId alloc_class,
                                std::uint64_t time_ns = 0, std::uint64_t alloc_time_ns = 0) {
  SampleEvent event;
  event.record = {.time_ns = time_ns,
                  .sample_id = id,
                  .size_words = 0,
                  .n_samples = 1,
                  .origin = MEMPROF_ORIGIN(7, MEMPROF_SOURCE_NORMAL, kind)};
  event.alloc_class = alloc_class;
  event.alloc_time_ns = alloc_time_ns;
  return event;
}

// Class of blocks allocated at these return addresses; class and callstack have the same number.
inline EventClass event_class(std::uint32_t id, std::vector<std::uint64_t> addresses,
                              AllocClass alloc_class = {}) {
  auto callstack = std::make_shared<Callstack>();
  callstack->hash = StackHash(id);
  callstack->n_frames = static_cast<std::uint32_t>(addresses.size());
  callstack->entries = std::move(addresses);
  alloc_class.callstack = CallstackId(id);
  return {ClassId(id), alloc_class, std::move(callstack)};
}

// Minor allocations of unknown blocks, with consecutive numbers as ids.
inline EventChunkPtr numbered_chunk(std::uint64_t first, std::size_t count) {
  auto chunk = std::make_shared<EventChunk>();
  chunk->first = first;
  chunk->rate = 1e-3;
  chunk->classes = {event_class(0, {})};
  for (std::uint64_t id = first; id < first + count; ++id) {
    chunk->events.push_back(sample_event(id, MEMPROF_ALLOC_MINOR, ClassId()));
  }
  return chunk;
}

}  // namespace memprofd::testing
