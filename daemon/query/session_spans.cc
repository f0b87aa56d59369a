// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/session_spans.h"

#include <algorithm>

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

}  // namespace

std::vector<SessionSpan> session_spans(const RangeCounter& counter, const TimeRange& range) {
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
  return spans;
}

}  // namespace memprofd
