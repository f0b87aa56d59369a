// SPDX-License-Identifier: Apache-2.0
// The latest events of one target, for readers that need every event. There is one writer, the
// ingest thread, which never waits for a reader; and any number of readers, each at its own pace.
// Events that a slow reader misses are counted.
//
// Events are numbered over the life of the target, including unrecorded ones, so that the size of
// every hole is known. The stored events have no hole:
//
//     number   0 ........ 900 ............ 1500 ...... 2000 ...... 2400
//              not recorded |   evicted     [   chunk   ][  chunk  ) next
//                       began ^
//     reader at 2100: gets 2100 .. 2400 and is at 2400
//     reader at 1200: is informed of 300 dropped events, gets 1500 .. 2400
//     cursor of  700: is informed of 800 dropped events, gets 1500 .. 2400
//
// Recording runs while there are readers and for a while after the last one, so that its cursor can
// be resumed without loss. Without readers it costs nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/aggregate/sample_event.h"
#include "daemon/model/alloc_class.h"
#include "daemon/model/callstack.h"
#include "daemon/util/clock.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

struct EventClass {
  ClassId id;
  AllocClass alloc_class;
  std::shared_ptr<const Callstack> callstack;  // never null
};

// Events of a target that never arrived.
struct EventLosses {
  std::uint64_t records = 0;
  std::uint64_t native_events = 0;  // likewise for the native heap

  bool any() const { return records > 0 || native_events > 0; }
  std::uint64_t of(bool c) const { return c ? native_events : records; }
  EventLosses& operator+=(const EventLosses& other) {
    records += other.records;
    native_events += other.native_events;
    return *this;
  }
  friend EventLosses operator-(const EventLosses& a, const EventLosses& b) {
    return {a.records - b.records, a.native_events - b.native_events};
  }
  friend bool operator==(const EventLosses&, const EventLosses&) = default;
};

// Consecutive events of one session and of the native heap.
struct EventChunk {
  std::uint64_t first = 0;          // number of the first event
  std::vector<SampleEvent> events;  // at least one
  double rate = 0;                  // samples per word, of the session that ran
  double native_rate = 0;           // likewise for the native heap; 0: it is not profiled
  std::vector<EventClass> classes;  // classes of all its events, ordered by id
  EventLosses lost_before;          // since the previous chunk

  double rate_of(bool c) const { return c ? native_rate : rate; }

  // Returns null for a class without an event in this chunk.
  const EventClass* find(ClassId id) const;
  std::uint64_t end() const { return first + events.size(); }
};
using EventChunkPtr = std::shared_ptr<const EventChunk>;

// Position of a reader. It can be kept and resumed in the same log.
struct EventCursor {
  std::uint64_t log = 0;
  std::uint64_t next_event = 0;
  friend bool operator==(const EventCursor&, const EventCursor&) = default;
};

// A chunk without the events that the reader already has.
struct EventSlice {
  EventChunkPtr chunk;
  std::size_t skip = 0;

  std::span<const SampleEvent> events() const {
    return std::span<const SampleEvent>(chunk->events).subspan(skip);
  }
  std::uint64_t first() const { return chunk->first + skip; }
};

struct EventRead {
  std::uint64_t dropped = 0;       // earlier events that the reader was too slow to read
  EventLosses lost;                // before these events; after them if the target has ended
  std::vector<EventSlice> slices;  // in order, without holes
  // Position after these events. Unset until recording has begun; nothing is missed from the first
  // read on that sets it.
  std::optional<EventCursor> next;
  bool ended = false;  // the target has ended and the reader has everything
};

struct EventLogOptions {
  // 13 MB at 48 bytes per event, and at most as much again for classes.
  std::size_t max_events = 262'144;
  // A slow target, whose chunks are small, can keep more than a minute in them, with 5 MB.
  std::size_t max_chunks = 16'384;
  std::chrono::nanoseconds kept_after_last_reader = std::chrono::seconds(60);
  std::function<std::uint64_t()> now_ns = monotonic_ns;
};

class EventReader;

class EventLog {
 public:
  explicit EventLog(EventLogOptions options = {});
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Random, to distinguish the log from those of all other attaches and daemons.
  std::uint64_t id() const { return id_; }

  // ---- For the writer.

  // True if there are readers, so that events must be recorded.
  bool wanted() const;
  // Starts recording with that number, which must not be below any earlier one.
  void begin(std::uint64_t next_event);
  // Requires that recording is on. chunk->first must be the number from begin(), or the end of the
  // previous chunk.
  void append(EventChunkPtr chunk);
  // Stops recording and frees the stored events. Returns false without effect if a reader has
  // arrived meanwhile.
  bool stop();
  // Declares that no events will follow. Readers still get the stored ones, which stop() frees.
  // lost: since the last chunk.
  void close(EventLosses lost = {});

 private:
  friend class EventReader;
  absl::StatusOr<std::optional<std::uint64_t>> join(const std::optional<EventCursor>& cursor);
  void leave();
  EventRead read(std::optional<std::uint64_t>& position, std::size_t max_events,
                 std::chrono::milliseconds timeout);
  void collect(std::uint64_t position, std::size_t max_events, EventRead& into) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const EventLogOptions options_;
  const std::uint64_t id_;
  std::atomic<int> readers_{0};
  std::atomic<std::uint64_t> kept_until_ns_{0};  // 0: no reader so far

  Mutex mutex_;  // held only while moving pointers
  Condition changed_;
  std::deque<EventChunkPtr> chunks_ ABSL_GUARDED_BY(mutex_);  // without holes, up to next_
  std::size_t events_ ABSL_GUARDED_BY(mutex_) = 0;            // number of events in chunks_
  std::uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t began_ ABSL_GUARDED_BY(mutex_) = 0;  // number at which recording last began
  bool recording_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  EventLosses lost_at_end_ ABSL_GUARDED_BY(mutex_);
};

// Reads from one log. The log is recorded while a reader exists. Not thread-safe.
class EventReader {
 public:
  // Begins with the next event if there is no cursor. kOutOfRange: the cursor belongs to another
  // log.
  static absl::StatusOr<EventReader> open(std::shared_ptr<EventLog> log,
                                          const std::optional<EventCursor>& cursor = {});
  ~EventReader();
  EventReader(EventReader&& other) noexcept = default;
  EventReader& operator=(EventReader&&) = delete;

  // Waits for events or losses. Returns whole chunks, with at least max_events unless records were
  // lost between two chunks.
  EventRead read(std::size_t max_events, std::chrono::milliseconds timeout);

 private:
  EventReader(std::shared_ptr<EventLog> log, std::optional<std::uint64_t> position)
      : log_(std::move(log)), position_(position) {}

  std::shared_ptr<EventLog> log_;  // null if moved from
  std::optional<std::uint64_t> position_;
};

}  // namespace memprofd
