#include "daemon/aggregate/aggregator.h"

namespace memprofd {
namespace {

Heap heap_of(std::uint32_t kind) {
  return kind == MEMPROF_ALLOC_MAJOR || kind == MEMPROF_DEALLOC_MAJOR ? Heap::kMajor : Heap::kMinor;
}

}  // namespace

void Aggregator::begin_session(double rate) {
  end_session();
  rate_ = rate;
}

void Aggregator::end_session() {
  drops_.add(Drop::kFollowSessionEnd, live_.size());
  live_.clear();
  totals_.live = {};
  for (CallstackCounters& counters : by_callstack_) counters.live = {};
}

void Aggregator::alloc(const memprof_record& record, CallstackId callstack) {
  const Heap heap = heap_of(MEMPROF_ORIGIN_KIND(record.origin));
  const auto source = MEMPROF_ORIGIN_SOURCE(record.origin);
  CallstackCounters& counters = counters_of(callstack);
  ++totals_.alloc_events;
  totals_.allocated[static_cast<int>(heap)][source].add(record.n_samples, rate_);
  counters.allocated.add(record.n_samples, rate_);
  switch (live_.insert(SampleId(record.sample_id),
                       LiveSample(record.time_ns, record.n_samples, callstack, heap))) {
    case LiveSet::Inserted::kYes:
      totals_.live.add(record.n_samples, rate_);
      counters.live.add(record.n_samples, rate_);
      break;
    case LiveSet::Inserted::kAlreadyThere:
      drops_.add(Drop::kDecodeBadRecord);
      break;
    case LiveSet::Inserted::kFull:
      drops_.add(Drop::kFollowLiveSetFull);
      break;
  }
}

CallstackId Aggregator::promote(const memprof_record& record) {
  ++totals_.promote_events;
  LiveSample* sample = live_.find(SampleId(record.sample_id));
  if (sample == nullptr || sample->heap() == Heap::kMajor) {
    drops_.add(Drop::kFollowUnknownSample);
    return CallstackId();
  }
  sample->move_to_major();
  totals_.promoted.add(sample->n_samples(), rate_);
  counters_of(sample->callstack()).promoted.add(sample->n_samples(), rate_);
  return sample->callstack();
}

CallstackId Aggregator::dealloc(const memprof_record& record) {
  ++totals_.dealloc_events;
  const auto sample = live_.take(SampleId(record.sample_id));
  if (!sample) {
    drops_.add(Drop::kFollowUnknownSample);
    return CallstackId();
  }
  const int heap = static_cast<int>(heap_of(MEMPROF_ORIGIN_KIND(record.origin)));
  const std::uint32_t n_samples = sample->n_samples();
  const std::uint64_t born = sample->alloc_time_ns();
  CallstackCounters& counters = counters_of(sample->callstack());
  totals_.deallocated[heap].add(n_samples, rate_);
  totals_.live.subtract(n_samples, rate_);
  counters.deallocated[heap].add(n_samples, rate_);
  counters.live.subtract(n_samples, rate_);
  counters.lifetime.add(record.time_ns > born ? record.time_ns - born : 0, n_samples);
  return sample->callstack();
}

CallstackCounters& Aggregator::counters_of(CallstackId callstack) {
  if (callstack.value() >= by_callstack_.size()) by_callstack_.resize(callstack.value() + 1);
  return by_callstack_[callstack.value()];
}

}  // namespace memprofd
