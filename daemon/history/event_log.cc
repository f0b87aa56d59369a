// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/event_log.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace memprofd {
namespace {

std::uint64_t random_id() {
  std::random_device random;
  return std::uniform_int_distribution<std::uint64_t>(1)(random);
}

}  // namespace

const EventClass* EventChunk::find(ClassId id) const {
  const auto found = std::lower_bound(classes.begin(), classes.end(), id,
                                      [](const EventClass& c, ClassId key) { return c.id < key; });
  return found != classes.end() && found->id == id ? &*found : nullptr;
}

EventLog::EventLog(EventLogOptions options) : options_(std::move(options)), id_(random_id()) {}

bool EventLog::wanted() const {
  if (readers_.load() > 0) return true;
  const std::uint64_t until = kept_until_ns_.load();
  return until != 0 && options_.now_ns() < until;
}

void EventLog::begin(std::uint64_t next_event) {
  std::deque<EventChunkPtr> old;  // destroyed outside the lock
  {
    const MutexLock lock(mutex_);
    if (next_event != next_) {
      old.swap(chunks_);
      events_ = 0;
    }
    next_ = began_ = next_event;
    recording_ = true;
  }
  changed_.notify_all();
}

void EventLog::append(EventChunkPtr chunk) {
  std::vector<EventChunkPtr> old;  // destroyed outside the lock
  {
    const MutexLock lock(mutex_);
    next_ = chunk->end();
    events_ += chunk->events.size();
    chunks_.push_back(std::move(chunk));
    while ((events_ > options_.max_events || chunks_.size() > options_.max_chunks) &&
           chunks_.size() > 1) {
      events_ -= chunks_.front()->events.size();
      old.push_back(std::move(chunks_.front()));
      chunks_.pop_front();
    }
  }
  changed_.notify_all();
}

bool EventLog::stop() {
  std::deque<EventChunkPtr> old;
  const MutexLock lock(mutex_);
  if (readers_.load() > 0) return false;
  old.swap(chunks_);
  events_ = 0;
  recording_ = false;
  return true;
}

void EventLog::close(EventLosses lost) {
  {
    const MutexLock lock(mutex_);
    lost_at_end_ = lost;
    closed_ = true;
  }
  changed_.notify_all();
}

absl::StatusOr<std::optional<std::uint64_t>> EventLog::join(
    const std::optional<EventCursor>& cursor) {
  const MutexLock lock(mutex_);
  if (cursor && (cursor->log != id_ || cursor->next_event > next_)) {
    return absl::OutOfRangeError(absl::StrCat("cursor ", cursor->log, ":", cursor->next_event,
                                              " belongs to another attach or daemon, whose events "
                                              "are gone; start the stream without a cursor"));
  }
  ++readers_;
  if (cursor) return cursor->next_event;
  if (recording_ || closed_) return next_;
  return std::nullopt;
}

void EventLog::leave() {
  kept_until_ns_ =
      options_.now_ns() + static_cast<std::uint64_t>(options_.kept_after_last_reader.count());
  --readers_;
}

EventRead EventLog::read(std::optional<std::uint64_t>& position, std::size_t max_events,
                         std::chrono::milliseconds timeout) {
  EventRead result;
  const auto until = std::chrono::steady_clock::now() + timeout;
  const MutexLock lock(mutex_);
  while (!closed_ && !(position ? next_ > *position : recording_) &&
         changed_.wait_until(mutex_, until)) {
  }
  if (!position && (recording_ || closed_)) position = recording_ ? began_ : next_;
  if (!position) return result;
  const std::uint64_t oldest = chunks_.empty() ? next_ : chunks_.front()->first;
  if (*position < oldest) {
    result.dropped = oldest - *position;
    position = oldest;
  }
  collect(*position, max_events, result);
  if (!result.slices.empty()) position = result.slices.back().chunk->end();
  result.next = EventCursor{id_, *position};
  result.ended = closed_ && *position == next_;
  if (result.ended) result.lost += lost_at_end_;
  return result;
}

void EventLog::collect(std::uint64_t position, std::size_t max_events, EventRead& into) const {
  auto chunk = std::upper_bound(chunks_.begin(), chunks_.end(), position,
                                [](std::uint64_t p, const auto& c) { return p < c->end(); });
  for (std::size_t events = 0; chunk != chunks_.end() && events < max_events; ++chunk) {
    const EventLosses lost = position == (*chunk)->first ? (*chunk)->lost_before : EventLosses();
    if (lost.any() && !into.slices.empty()) return;
    into.lost += lost;
    into.slices.push_back({*chunk, static_cast<std::size_t>(position - (*chunk)->first)});
    position = (*chunk)->end();
    events += into.slices.back().events().size();
  }
}

absl::StatusOr<EventReader> EventReader::open(std::shared_ptr<EventLog> log,
                                              const std::optional<EventCursor>& cursor) {
  auto position = log->join(cursor);
  if (!position.ok()) return position.status();
  return EventReader(std::move(log), *position);
}

EventReader::~EventReader() {
  if (log_ != nullptr) log_->leave();
}

EventRead EventReader::read(std::size_t max_events, std::chrono::milliseconds timeout) {
  return log_->read(position_, max_events, timeout);
}

}  // namespace memprofd
