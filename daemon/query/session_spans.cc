// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/session_spans.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace memprofd {
namespace {

constexpr std::uint64_t kWarmUpNs = 600'000'000'000;
constexpr std::size_t kMaxSpans = 16;

// Later, by the time in which caches may fill.
std::uint64_t warm(const RangeCounter& counter, std::uint64_t begin_ns, std::uint64_t end_ns) {
  const std::uint64_t warm_up_ns = std::min(kWarmUpNs, (end_ns - begin_ns) / 2);
  const std::uint64_t later = counter.resolve({begin_ns + warm_up_ns, end_ns}).begin_ns;
  return later < end_ns ? later : begin_ns;
}

// Spans that begin and end where a major collection has ended.
class BetweenCollections {
 public:
  explicit BetweenCollections(const RangeCounter& counter) : counter_(counter) {}

  void add(const SessionSpan& span) {
    std::optional<SessionSpan> between;
    std::optional<std::uint64_t> before;
    for (const HistoryWindowPtr& window : counter_.finest(span.begin_ns, span.end_ns)) {
      const HistoryPoint& at_end = window->at_end();
      known_ = known_ || at_end.heap_words > 0;
      if (before && at_end.major_collections > *before) {
        if (between) ended_ += at_end.major_collections - *before;
        if (!between) between = {window->end_ns(), window->end_ns()};
        between->end_ns = window->end_ns();
      }
      before = at_end.major_collections;
    }
    if (between && between->end_ns > between->begin_ns) spans_.push_back(*between);
  }
  bool known() const { return known_; }
  std::vector<SessionSpan> take() {
    if (ended_ < kMinCollections) spans_.clear();
    return std::move(spans_);
  }

 private:
  const RangeCounter& counter_;
  bool known_ = false;
  std::uint64_t ended_ = 0;
  std::vector<SessionSpan> spans_;
};

}  // namespace

std::vector<SessionSpan> session_spans(const RangeCounter& counter, const TimeRange& range,
                                       SpanEnds ends) {
  std::vector<SessionSpan> spans;
  SessionSpan span{range.begin_ns, range.end_ns};
  bool fresh = range.begin_ns <= counter.begin_ns();
  const auto end_at = [&](std::uint64_t time_ns) {
    if (time_ns <= span.begin_ns) return;
    spans.push_back({fresh ? warm(counter, span.begin_ns, time_ns) : span.begin_ns, time_ns});
  };
  auto session = counter.session_at(range.begin_ns);
  for (const HistoryWindowPtr& window : counter.finest(range.begin_ns, range.end_ns)) {
    const std::uint64_t at_end = window->at_end().session;
    if (session && *session != at_end) {
      end_at(window->begin_ns());
      span.begin_ns = window->end_ns();
      fresh = true;
    }
    session = at_end;
  }
  end_at(range.end_ns);
  if (spans.size() > kMaxSpans) spans.erase(spans.begin(), spans.end() - kMaxSpans);
  if (ends == SpanEnds::kAnywhere) return spans;
  BetweenCollections between(counter);
  for (const SessionSpan& whole : spans) between.add(whole);
  return between.known() ? between.take() : spans;
}

}  // namespace memprofd
