// SPDX-License-Identifier: Apache-2.0
// Sorts the events of several domains by time. A file is sorted only within each domain, and
// domains may be apart by the duration of a packet:
//
//   file    d0: 1 s, 2 s, 3 s   d1: 1.5 s, 2.5 s   d0: 31.2 s
//   out     after 31.2 s, everything up to 1.2 s; at the end the rest, in order
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "daemon/trace/ctf/ctf_format.h"

namespace memprofd {

// Event must have time_us. Events with the same time keep their order.
template <typename Event>
class TraceOrder {
 public:
  // span_us: maximum distance of the domains; 0: events pass through. max_events: maximum number
  // held back; with more, the order is approximate.
  TraceOrder(std::uint64_t span_us, std::size_t max_events)
      : span_us_(span_us), max_events_(max_events) {}

  template <typename Use>
  void put(const Event& event, Use use) {
    if (span_us_ == 0) return use(event);
    latest_us_ = std::max(latest_us_, event.time_us);
    waiting_.push({event, next_++});
    while (!waiting_.empty() && (waiting_.size() > max_events_ ||
                                 latest_us_ - waiting_.top().event.time_us > span_us_)) {
      take(use);
    }
  }
  template <typename Use>
  void finish(Use use) {
    while (!waiting_.empty()) take(use);
  }

 private:
  struct Waiting {
    Event event;
    std::uint64_t number;
    friend bool operator<(const Waiting& a, const Waiting& b) {
      return std::pair(a.event.time_us, a.number) > std::pair(b.event.time_us, b.number);
    }
  };

  template <typename Use>
  void take(Use use) {
    const Event event = waiting_.top().event;
    waiting_.pop();
    use(event);
  }

  std::uint64_t span_us_;
  std::size_t max_events_;
  std::uint64_t latest_us_ = 0;
  std::uint64_t next_ = 0;
  std::priority_queue<Waiting> waiting_;
};

}  // namespace memprofd
