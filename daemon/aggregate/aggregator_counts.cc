// SPDX-License-Identifier: Apache-2.0
// Conversion of tallies to counters and intervals.
#include <utility>

#include "daemon/aggregate/aggregator.h"

namespace memprofd {

void Aggregator::Session::set_rate(double per_word) {
  rate = per_word;
  of_word = weight_of_word(per_word);
}

const std::vector<Counters>& Aggregator::by_class() const {
  settle();
  return by_class_;
}

void Aggregator::settle() const {
  for (const Session& session : sessions_) settle(session);
  settle(native_session_);
}

void Aggregator::settle(const Session& session) const {
  for (const Tally& tally : session.tallies.cells()) {
    const AllocClass& of = classes_.get(tally.alloc_class);
    const SampleWeight each = session.weight_of(of);
    tally.add_to(counters_of(tally.alloc_class), each, of.block_words());
    tally.add_to(session.interval.cell(tally.alloc_class), each);
  }
  session.tallies.clear();
}

void Aggregator::close(Session& session) {
  settle(session);
  if (!session.interval.empty()) closed_.push_back({std::move(session.interval), session.rate});
  session.interval = {};
}

void Aggregator::close_interval(const std::function<void(const Interval&, double)>& use) {
  peek(use);
  closed_.clear();
  for (Session& session : sessions_) session.interval.clear();
  native_session_.interval.clear();
  observed_.clear();
}

void Aggregator::peek(const std::function<void(const Interval&, double)>& use) const {
  settle();
  for (const ClosedInterval& closed : closed_) use(closed.interval, closed.rate);
  for (std::uint32_t i = 1; i <= kSessions; ++i) {
    const Session& session = sessions_[(running_ + i) % kSessions];
    if (!session.interval.empty()) use(session.interval, session.rate);
  }
  if (!native_session_.interval.empty()) use(native_session_.interval, native_session_.rate);
  observed_.for_each_weight(use);
}

Counters& Aggregator::counters_of(ClassId alloc_class) const {
  if (alloc_class.value() >= by_class_.size()) by_class_.resize(alloc_class.value() + 1);
  return by_class_[alloc_class.value()];
}

}  // namespace memprofd
