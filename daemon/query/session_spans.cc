// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/session_spans.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace memprofd {
namespace {

constexpr std::uint64_t kWarmUpNs = 600'000'000'000, kWarmUpPart = 4;
constexpr std::size_t kMaxSpans = 16;

// The event that began a session.
enum class Begin {
  kLongAgo,  // before the examined time
  kFresh,    // at the attach or a rate change
  kLoss,
};

// The comparable part of the session, without the warm-up in which caches may fill.
std::optional<SessionSpan> warm(const RangeCounter& counter, const SessionSpan& session,
                                Begin begin, SpanEnds ends) {
  if (begin == Begin::kLongAgo) return session;
  const bool whole = begin == Begin::kLoss && ends == SpanEnds::kAtCollections;
  const std::uint64_t part_ns = (session.end_ns - session.begin_ns) / kWarmUpPart;
  const std::uint64_t warm_up_ns = whole ? kWarmUpNs : std::min(kWarmUpNs, part_ns);
  const std::uint64_t from =
      counter.resolve({session.begin_ns + warm_up_ns, session.end_ns}).begin_ns;
  if (from < session.end_ns) return SessionSpan{from, session.end_ns};
  return whole ? std::nullopt : std::optional(session);
}

// Collects the comparable spans of the sessions in the range. Also reads the warm-up time before
// the range, because a session may begin there.
class SessionsOf {
 public:
  SessionsOf(const RangeCounter& counter, const TimeRange& range, SpanEnds ends)
      : counter_(counter), range_(range), ends_(ends) {
    const std::uint64_t begin_ns = range.begin_ns > kWarmUpNs ? range.begin_ns - kWarmUpNs : 1;
    session_.begin_ns = counter.resolve({begin_ns, range.end_ns}).begin_ns;
    begin_ = session_.begin_ns <= counter.begin_ns() ? Begin::kFresh : Begin::kLongAgo;
    number_ = counter.session_at(session_.begin_ns);
    for (const HistoryWindowPtr& window : counter.finest(session_.begin_ns, range.end_ns)) {
      add(*window);
    }
    end_at(range.end_ns);
  }
  std::vector<SessionSpan> take() { return std::move(spans_); }

 private:
  void add(const HistoryWindow& window) {
    const HistoryPoint& point = window.at_end();
    if (number_ && *number_ != point.session) {
      end_at(window.begin_ns());
      session_.begin_ns = window.end_ns();
      begin_ = lost_ && point.dropped_events > *lost_ ? Begin::kLoss : Begin::kFresh;
    }
    number_ = point.session;
    lost_ = point.dropped_events;
  }
  void end_at(std::uint64_t time_ns) {
    session_.end_ns = time_ns;
    if (time_ns <= session_.begin_ns) return;
    auto span = warm(counter_, session_, begin_, ends_);
    if (!span) return;
    span->begin_ns = std::max(span->begin_ns, range_.begin_ns);
    if (span->begin_ns < span->end_ns) spans_.push_back(*span);
  }

  const RangeCounter& counter_;
  const TimeRange& range_;
  SpanEnds ends_;
  SessionSpan session_{};  // the current one
  Begin begin_;
  std::optional<std::uint64_t> number_, lost_;
  std::vector<SessionSpan> spans_;
};

// Spans between the ends of major collections.
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
  std::vector<SessionSpan> spans = SessionsOf(counter, range, ends).take();
  if (spans.size() > kMaxSpans) spans.erase(spans.begin(), spans.end() - kMaxSpans);
  if (ends == SpanEnds::kAnywhere) return spans;
  BetweenCollections between(counter);
  for (const SessionSpan& whole : spans) between.add(whole);
  return between.known() ? between.take() : spans;
}

}  // namespace memprofd
