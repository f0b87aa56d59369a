// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/leaks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "daemon/query/cell_measure.h"
#include "daemon/query/leak_evidence.h"
#include "daemon/query/median_age.h"
#include "daemon/query/range.h"
#include "daemon/query/range_counter.h"
#include "daemon/query/select.h"
#include "daemon/query/session_spans.h"
#include "daemon/util/estimate.h"
#include "daemon/util/sort_and_cut.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr double kQuantile95 = 1.645;
constexpr std::size_t kSteps = 20;
// Ages looked at, youngest first, each so many times the one before.
constexpr std::uint64_t kYoungestAge = 1'000'000'000;
constexpr std::uint64_t kAgeFactor = 2;
constexpr int kNoGroup = -1;

// What is live at the begin and at the end of each span, and at both the same blocks.
struct Ends {
  Portion begin, end, old;
};

// The growth of each span with the weight of its own error: sums over spans of g T / v, T^2 / v and
// b T / v, where g is the growth in T seconds, v its variance and b the bytes that came and went.
struct WeighedGrowth {
  double growth = 0, weight = 0, turned = 0;

  void add(const Ends& of, double seconds) {
    const double old = std::max(0.0, of.old.variance_words2);
    const double variance =
        std::max(0.0, of.end.variance_words2 - old) + std::max(0.0, of.begin.variance_words2 - old);
    if (variance <= 0) return;
    const double each = seconds / variance;
    growth += (of.end.words - of.begin.words) * each;
    weight += seconds * each;
    turned += std::max(0.0, of.end.words + of.begin.words - 2 * of.old.words) * each;
  }
};

struct Growth {
  Ends chance, sampled;  // with either doubt, of all spans
  Ends span;             // with chance, of the one at hand
  WeighedGrowth weighed;
  Portion now, now_sampled;   // live at the end of the range, with either doubt
  LiveCourse course;          // over the spans, one after the other
  std::vector<double> older;  // words older than each age
};

// Groups of a profile, and the group of each row of the snapshot.
struct Grouping {
  VisibleFrames frames;
  Grouper grouper;
  std::vector<int> group_of_row;

  Grouping(const RangeCounter& counter, const TargetSnapshot& snapshot,
           const TargetProfile& profile, GroupBy by)
      : frames(profile), grouper(frames, by), group_of_row(snapshot.rows.size(), kNoGroup) {
    for (const ProfileRow& row : profile.rows) {
      group_of_row[counter.row_of(row.id)] =
          static_cast<int>(grouper.group_of(row.alloc_class, *row.callstack));
    }
  }
  // Adds each row's portion to what member(group) answers.
  template <typename Member>
  void add(const std::vector<Portion>& rows, Member member) const {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (group_of_row[row] == kNoGroup) continue;
      member(group_of_row[row]) += rows[row];
    }
  }
};

// Ages at the end of a range that history can tell, ascending: those between ends of its windows.
std::vector<std::uint64_t> ages_within(const RangeCounter& counter, std::uint64_t end_ns) {
  const std::uint64_t span_ns = end_ns - counter.begin_ns();
  std::vector<std::uint64_t> ages;
  for (std::uint64_t age = kYoungestAge; age < span_ns; age *= kAgeFactor) {
    const std::uint64_t known = end_ns - counter.resolve({end_ns - age, end_ns}).begin_ns;
    if (known > (ages.empty() ? 0 : ages.back()) && known < span_ns) ages.push_back(known);
  }
  return ages;
}

void add_step(const RangeCounter& counter, const HistoryView::Tier& step, const Grouping& grouping,
              std::vector<Growth>& growths) {
  for (const HistoryWindowPtr& window : step) {
    window->for_each_count([&](const WindowCell& cell, double rate) {
      const int row = counter.row_of(cell.alloc_class);
      if (row < 0 || grouping.group_of_row[row] == kNoGroup) return;
      LiveCourse& course = growths[grouping.group_of_row[row]].course;
      const double bytes_each = counter.weight(row, rate).words * kBytesPerWord;
      const double born = static_cast<double>(cell.allocated - cell.never_followed);
      course.born(born, bytes_each);
      course.gone(born - cell_samples(cell, Blocks::kLive), bytes_each);
    });
    const double seconds = static_cast<double>(window->end_ns() - window->begin_ns()) / 1e9;
    for (Growth& growth : growths) growth.course.end_window(seconds);
  }
  for (Growth& growth : growths) growth.course.end_step();
}

void add_steps(const RangeCounter& counter, const std::vector<SessionSpan>& spans,
               const Grouping& grouping, std::vector<Growth>& growths) {
  for (Growth& growth : growths) {
    growth.course = LiveCourse(growth.chance.begin.words * kBytesPerWord);
  }
  for (const SessionSpan& span : spans) {
    for (const auto& step : counter.steps(span.begin_ns, span.end_ns, kSteps / spans.size())) {
      add_step(counter, step, grouping, growths);
    }
    for (Growth& growth : growths) growth.course.end_span();
  }
}

// What is live, by row, to one of the ends.
void add_live(const RangeCounter& counter, const std::vector<Portion>& live,
              const Grouping& grouping, Portion Ends::*end, std::vector<Growth>& growths) {
  grouping.add(live, [&](int group) -> Portion& { return growths[group].chance.*end; });
  grouping.add(live, [&](int group) -> Portion& { return growths[group].span.*end; });
  grouping.add(counter.sampled(live),
               [&](int group) -> Portion& { return growths[group].sampled.*end; });
}

void end_span(const SessionSpan& span, std::vector<Growth>& growths) {
  for (Growth& growth : growths) {
    growth.weighed.add(std::exchange(growth.span, {}), span.seconds());
  }
}

// What is live at both ends of the span.
void add_old(const RangeCounter& counter, const SessionSpan& span, const Grouping& grouping,
             std::vector<Growth>& growths) {
  add_live(counter, counter.born_before({&span.begin_ns, 1}, span.end_ns).front(), grouping,
           &Ends::old, growths);
}

// What of the live bytes at the end of the range is older than each age, and than the last span:
// in one go, since each reads the history.
void add_ages(const RangeCounter& counter, const std::vector<std::uint64_t>& ages,
              const SessionSpan& last, const Grouping& grouping, std::vector<Growth>& growths) {
  std::vector<std::uint64_t> times{last.begin_ns};
  for (const std::uint64_t age : ages) times.push_back(last.end_ns - age);
  std::vector<std::uint64_t> latest_first = times;
  std::sort(latest_first.begin(), latest_first.end(), std::greater<>());
  const auto rows = counter.born_before(latest_first, last.end_ns);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const auto at = std::find(latest_first.begin(), latest_first.end(), times[i]);
    const std::vector<Portion>& live = rows[at - latest_first.begin()];
    if (i == 0) {
      add_live(counter, live, grouping, &Ends::old, growths);
      continue;
    }
    std::vector<Portion> older(growths.size());
    grouping.add(live, [&](int group) -> Portion& { return older[group]; });
    for (std::size_t g = 0; g < growths.size(); ++g) growths[g].older.push_back(older[g].words);
  }
}

MedianAge age_of(const Growth& growth, const std::vector<std::uint64_t>& ages,
                 std::uint64_t span_ns) {
  return median_age(OlderShares{.words = growth.now.words,
                                .variance_words2 = growth.now_sampled.variance_words2,
                                .ages_ns = ages,
                                .older_words = growth.older,
                                .span_ns = span_ns});
}

// If births and deaths are equally likely, chance alone gives less growth than this so often. Each
// span counts by its own error: one of few samples, at a low rate, does not hide what others show.
// Samples are whole: half of one each way is taken off, without which three births and no
// death would pass for 96 % instead of 87 %.
double confidence(const Growth& growth) {
  const WeighedGrowth& of = growth.weighed;
  const double variance = of.weight * growth.course.dispersion();
  const double sample = of.turned > 0 ? variance / of.turned : 0;
  const double beyond = std::max(0.0, std::abs(of.growth) - sample);
  return chance_beyond(-std::copysign(beyond, of.growth) / std::sqrt(variance));
}

// Where an end has more than both; of lifetimes known by bucket a little less than nothing may be
// left, which is then less on both sides.
Limits growth_limits(const Ends& of, double unseen_words) {
  const double missing =
      std::min({0.0, of.end.words - of.old.words, of.begin.words - of.old.words});
  const auto beyond = [&](const Portion& end) {
    const double variance = std::max(0.0, end.variance_words2 - of.old.variance_words2);
    const double skew = std::max(0.0, end.skew_words3 - of.old.skew_words3);
    return limits_of(end.words - of.old.words - missing, variance, skew, unseen_words);
  };
  return difference_limits(of.begin.words - of.old.words - missing, beyond(of.begin),
                           of.end.words - of.old.words - missing, beyond(of.end))
      .scaled(kBytesPerWord);
}

LeakGrowth summary_of(const Growth& growth, double unseen_words) {
  LeakGrowth out;
  const Ends& of = growth.chance;
  const double old = std::max(0.0, of.old.variance_words2);
  const double born = std::max(0.0, of.end.variance_words2 - old);
  const double died = std::max(0.0, of.begin.variance_words2 - old);
  out.growth_limits = growth_limits(growth.sampled, unseen_words);
  out.growth_bytes = (of.end.words - of.begin.words) * kBytesPerWord;
  out.growth_bytes_stderr = std::sqrt((born + died) * growth.course.dispersion()) * kBytesPerWord;
  if (growth.weighed.weight > 0) out.confidence = confidence(growth);
  out.steadiness = growth.course.steadiness();
  return out;
}

double at_least(const LeakGrowth& growth) {
  return growth.growth_bytes - kQuantile95 * growth.growth_bytes_stderr;
}

// A group with anything live or dead in the range.
struct Candidate {
  std::size_t group;  // of the rows at the end
  const Growth* growth;
  LeakGrowth summary;

  // How likely it seems to leak and does not.
  double chance() const {
    const double error = summary.growth_bytes_stderr;
    if (error <= 0 || growth->course.has_slowed_down(error)) return 1;
    return std::max(1 - summary.confidence, growth->course.chance_of_rise());
  }
};

std::vector<Candidate> candidates_of(const TargetProfile& at_end, const RangeCounter& counter,
                                     const Grouping& grouping, const GroupedRows& rows,
                                     const std::vector<Growth>& growths) {
  std::vector<Candidate> result(rows.grouper().size());
  for (std::size_t row = 0; row < at_end.rows.size(); ++row) {
    const std::size_t group = rows.group_of_row(row);
    const int of_snapshot = grouping.group_of_row[counter.row_of(at_end.rows[row].id)];
    result[group] = {group, &growths[of_snapshot], {}};
  }
  for (Candidate& candidate : result) {
    candidate.summary = summary_of(*candidate.growth, at_end.unseen.live);
  }
  return result;
}

// Largest least growth first, then by what is live, ties by name.
bool ranks_before(const Candidate& a, const Candidate& b, const Grouper& grouper) {
  const double x = at_least(a.summary), y = at_least(b.summary);
  if (x != y) return x > y;
  const double a_live = a.growth->now.words, b_live = b.growth->now.words;
  if (a_live != b_live) return a_live > b_live;
  return grouper.compare(a.group, b.group) < 0;
}

void leave_suspects(std::vector<Candidate>& candidates) {
  std::vector<double> chances;
  chances.reserve(candidates.size());
  for (const Candidate& candidate : candidates) chances.push_back(candidate.chance());
  const std::vector<bool> suspect = discoveries(chances);
  std::size_t at = 0;
  std::erase_if(candidates, [&](const Candidate&) { return !suspect[at++]; });
}

std::vector<Growth> growths_of(const RangeCounter& counter, const std::vector<SessionSpan>& spans,
                               const std::vector<std::uint64_t>& ages, const Grouping& grouping) {
  std::vector<Growth> growths(grouping.grouper.size());
  for (const SessionSpan& span : spans) {
    add_live(counter, counter.live_at(span.begin_ns), grouping, &Ends::begin, growths);
    const std::vector<Portion> at_end = counter.live_at(span.end_ns);
    add_live(counter, at_end, grouping, &Ends::end, growths);
    if (&span != &spans.back()) {
      add_old(counter, span, grouping, growths);
      end_span(span, growths);
    } else {
      grouping.add(at_end, [&](int g) -> Portion& { return growths[g].now; });
      grouping.add(counter.sampled(at_end),
                   [&](int g) -> Portion& { return growths[g].now_sampled; });
    }
  }
  add_steps(counter, spans, grouping, growths);
  add_ages(counter, ages, spans.back(), grouping, growths);
  end_span(spans.back(), growths);
  return growths;
}

// A search ranks ten thousand groups and names a hundred: lifetimes, which are most of the work,
// are counted of those only. rows: of at_end.
void count_lifetimes_of(const std::vector<std::size_t>& chosen, const GroupedRows& rows,
                        const TargetSnapshot& snapshot, TargetProfile& at_end) {
  std::vector<bool> wanted(rows.grouper().size());
  for (const std::size_t group : chosen) wanted[group] = true;
  std::vector<ProfileRow*> of_chosen;
  for (std::size_t row = 0; row < at_end.rows.size(); ++row) {
    if (wanted[rows.group_of_row(row)]) of_chosen.push_back(&at_end.rows[row]);
  }
  count_lifetimes(snapshot, at_end.range, of_chosen);
}

double seconds_of(const std::vector<SessionSpan>& spans) {
  return std::accumulate(spans.begin(), spans.end(), 0.0,
                         [](double sum, const SessionSpan& span) { return sum + span.seconds(); });
}

}  // namespace

absl::StatusOr<LeakAnswer> find_leaks(const TargetSnapshot& snapshot, const TimeRange& asked,
                                      const Filter& filter, const LeakQuery& query) {
  if (!filter.lifetime.takes_all()) {
    return absl::InvalidArgumentError(
        "the search for leaks has its own age limits; omit the lifetime filters");
  }
  const RangeCounter counter(snapshot, Doubt::kChance);
  ASSIGN_OR_RETURN(TargetProfile profile, select(snapshot, {}, filter));
  TimeRange range = counter.resolve(asked);
  const std::vector<SessionSpan> spans = session_spans(
      counter, range, query.limit == 0 ? SpanEnds::kAtCollections : SpanEnds::kAnywhere);
  if (spans.empty()) return LeakAnswer{.range = range};
  range = {spans.front().begin_ns, spans.back().end_ns};
  const double seconds = seconds_of(spans);
  Grouping grouping(counter, snapshot, profile, query.group_by);
  const std::uint64_t span_ns = range.end_ns - counter.begin_ns();
  const std::vector<std::uint64_t> ages = ages_within(counter, range.end_ns);
  const std::vector<Growth> growths = growths_of(counter, spans, ages, grouping);
  ASSIGN_OR_RETURN(TargetProfile at_end,
                   select(snapshot, {range.begin_ns, range.end_ns}, filter, Lifetimes::kLeftOut));

  GroupedRows rows(at_end, query.group_by);
  std::vector<Candidate> candidates = candidates_of(at_end, counter, grouping, rows, growths);
  std::erase_if(candidates,
                [](const Candidate& candidate) { return candidate.growth->now.words <= 0; });
  const double rate = snapshot.info.sampling_rate;
  const double least_leak =
      rate > 0 ? samples_to_be_named(candidates.size()) * kBytesPerWord / rate / seconds : 0;
  if (query.limit == 0) leave_suspects(candidates);
  sort_and_cut(candidates, query.limit, [&](const Candidate& a, const Candidate& b) {
    return ranks_before(a, b, rows.grouper());
  });
  std::vector<std::size_t> chosen;
  chosen.reserve(candidates.size());
  for (const Candidate& candidate : candidates) chosen.push_back(candidate.group);
  count_lifetimes_of(chosen, rows, snapshot, at_end);
  std::vector<Group> groups = rows.sums(chosen, Measure::kLive);
  LeakAnswer answer{range, seconds, least_leak, {}};
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    LeakSuspect& suspect = answer.suspects.emplace_back();
    static_cast<LeakGrowth&>(suspect) = candidates[i].summary;
    const MedianAge age = age_of(*candidates[i].growth, ages, span_ns);
    suspect.median_age_seconds = age.seconds;
    suspect.median_age_limits = age.limits;
    suspect.group = std::move(groups[i]);
    suspect.group.set_callstack(rows.frames());
  }
  return answer;
}

}  // namespace memprofd
