// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/event_tap.h"

#include <algorithm>
#include <utility>

namespace memprofd {
namespace {

// Small chunks from one pass over the ring are merged until they have this many events.
constexpr std::size_t kChunkEvents = 512;

EventLosses losses_of(const Pipeline& pipeline) {
  return {pipeline.drops().get(Drop::kFollowLostRecords), pipeline.native_events_lost()};
}

}  // namespace

EventTap::EventTap(Pipeline& pipeline, std::shared_ptr<EventLog> log)
    : pipeline_(pipeline), log_(std::move(log)) {}

EventTap::~EventTap() {
  pipeline_.set_observer(nullptr);
  close();
}

void EventTap::update() {
  const bool wanted = log_->wanted();
  if (wanted == recording_) return;
  if (!wanted) {
    if (!log_->stop()) return;
    recording_ = false;
    pipeline_.set_observer(nullptr);
  } else if (!closed_) {
    recording_ = true;
    first_ = pipeline_.events();
    lost_ = losses_of(pipeline_);
    lost_before_ = {};
    log_->begin(first_);
    pipeline_.set_observer(this);
  }
}

// Losses are reported before the next event.
void EventTap::note_losses() {
  const EventLosses lost = losses_of(pipeline_);
  if (lost == lost_) return;
  flush();
  lost_before_ += lost - std::exchange(lost_, lost);
}

void EventTap::on_event(const SampleEvent& event, double rate) {
  note_losses();
  if (rate != rate_) {
    flush();
    rate_ = rate;
  }
  put(event);
}

// Native events come one at a time.
void EventTap::on_native_event(const SampleEvent& event) {
  note_losses();
  put(event);
  on_batch_end();
}

void EventTap::put(const SampleEvent& event) {
  events_.push_back(event);
  note_class(event.alloc_class);
}

void EventTap::on_batch_end() {
  if (events_.size() >= kChunkEvents) flush();
}

void EventTap::note_class(ClassId id) {
  if (id.value() >= last_chunk_.size()) last_chunk_.resize(id.value() + 1);
  if (std::exchange(last_chunk_[id.value()], chunk_) != chunk_) classes_.push_back(id);
}

std::vector<EventClass> EventTap::take_classes() {
  std::sort(classes_.begin(), classes_.end());
  std::vector<EventClass> result;
  result.reserve(classes_.size());
  for (const ClassId id : classes_) {
    const AllocClass& alloc_class = pipeline_.alloc_class(id);
    result.push_back({id, alloc_class, pipeline_.callstack(alloc_class.callstack)});
  }
  classes_.clear();
  ++chunk_;
  return result;
}

void EventTap::flush() {
  if (events_.empty()) return;
  auto chunk = std::make_shared<EventChunk>();
  chunk->first = first_;
  chunk->events = events_;  // copied, so that events_ keeps its capacity
  chunk->rate = rate_;
  chunk->native_rate = pipeline_.native_heap_rate();
  chunk->lost_before = std::exchange(lost_before_, {});
  chunk->classes = take_classes();
  first_ = chunk->end();
  events_.clear();
  log_->append(std::move(chunk));
}

void EventTap::close() {
  if (std::exchange(closed_, true)) return;
  note_losses();
  flush();
  log_->close(recording_ ? lost_before_ : EventLosses());
}

}  // namespace memprofd
