// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/leaks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "daemon/model/measure.h"
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
// Ages to examine, youngest first, each a multiple of the previous one.
constexpr std::uint64_t kYoungestAge = 1'000'000'000;
constexpr std::uint64_t kAgeFactor = 2;
// Maximum number of certain groups that are shown, or of those with the largest growth if none is
// certain.
constexpr std::size_t kRolledUp = 3;
// Stricter than for sites: modules and callers are examined whenever no site is a suspect, and a
// leak that is spread over many sites can wait.
constexpr double kFalseRollUps = 1e-3;
// A module is not shown as a mere hint if it grows less probably than this.
constexpr double kMinHint = 0.9;
// The report names the caller with the least live memory among those with at least this share of
// the largest growth: the root of all callstacks has all of the growth but identifies nothing.
constexpr double kMaxOfGrowth = 0.8;
// A site with more large blocks does not grow in steps.
constexpr std::size_t kMaxLargeBlocks = 64;

// Live memory at the beginning and the end of each span, and the blocks that are in both.
struct Ends {
  Portion begin, end, old;
};

// Growth summed over spans, weighted by the inverse variance: sums of g T / v, T^2 / v and b T / v,
// where g is the growth in T seconds, v its variance and b the words allocated or freed.
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
  Ends chance, sampled;  // sums over spans, for each variance model
  Ends span;             // the current span, with VarianceModel::kChance
  WeighedGrowth weighed;
  Portion now, now_sampled;   // live at the end of the range, for each variance model
  Portion settled;            // part of now that is not floating garbage (settled_until())
  LiveTrend course;           // all spans in order
  std::vector<double> older;  // words older than each age
};

// Defines how a search forms groups.
struct GroupsBy {
  const LocationMatcher* hidden = nullptr;
  SiteFrame site_frame = SiteFrame::kInnermost;
  GroupBy key = GroupBy::kSite;
  bool callers = false;  // every function of a callstack that may name a site; key is kFunction
};

// Groups of a profile, and for each row of the snapshot its groups: one, or one per caller.
struct Grouping {
  using Groups = absl::InlinedVector<int, 1>;

  VisibleFrames frames;
  Grouper grouper;
  std::vector<Groups> groups_of_row;  // empty: the row does not count

  Grouping(const RangeCounter& counter, const ProfileSnapshot& snapshot,
           const TargetProfile& profile, const GroupsBy& by)
      : frames(*profile.symbolizer, by.hidden, by.site_frame),
        grouper(frames, by.key),
        groups_of_row(snapshot.rows.size()) {
    for (const ProfileRow& row : profile.rows) {
      Groups& groups = groups_of_row[counter.row_of(row.id)];
      if (by.callers) {
        add_callers(*row.callstack, groups);
      } else {
        groups = {static_cast<int>(grouper.group_of(row.alloc_class, *row.callstack))};
      }
    }
  }
  bool same_groups(const Grouping& other) const { return groups_of_row == other.groups_of_row; }
  // Adds each row's portion to the member of its group.
  template <typename Member>
  void add(const std::vector<Portion>& rows, Member member) const {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (const int group : groups_of_row[row]) member(group) += rows[row];
    }
  }

 private:
  // Adds each caller once, even if it occurs several times in a callstack.
  void add_callers(const Callstack& callstack, Groups& groups) {
    frames.walk(callstack, [&](VisibleFrames::Locations locations, std::uint64_t) {
      for (const LocationId id : locations) {
        if (!frames.names_sites(id)) continue;
        const int group = static_cast<int>(grouper.group_of(id));
        if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
      }
      return true;
    });
  }
};

// Groups and their growth. One pass counts several of these, because a pass over the history is
// slow.
struct Counted {
  Grouping grouping;
  std::vector<Growth> growths;

  Counted(const RangeCounter& counter, const ProfileSnapshot& snapshot,
          const TargetProfile& profile, const GroupsBy& by)
      : grouping(counter, snapshot, profile, by), growths(grouping.grouper.size()) {}

  // Adds each row's portion to the member of its groups' growth.
  template <typename Member>
  void add(const std::vector<Portion>& rows, Member member) {
    grouping.add(rows, [&](int group) -> Portion& { return member(growths[group]); });
  }
};
using All = std::vector<Counted*>;

// Ages at the end of a range that history can resolve, ascending: those at ends of its windows.
std::vector<std::uint64_t> ages_within(const RangeCounter& counter, std::uint64_t end_ns) {
  const std::uint64_t span_ns = end_ns - counter.begin_ns();
  std::vector<std::uint64_t> ages;
  for (std::uint64_t age = kYoungestAge; age < span_ns; age *= kAgeFactor) {
    const std::uint64_t known = end_ns - counter.resolve({end_ns - age, end_ns}).begin_ns;
    if (known > (ages.empty() ? 0 : ages.back()) && known < span_ns) ages.push_back(known);
  }
  return ages;
}

void add_step(const RangeCounter& counter, const HistoryView::Tier& step, const All& all) {
  for (const HistoryWindowPtr& window : step) {
    window->for_each_count([&](const WindowCell& cell, double rate) {
      const int row = counter.row_of(cell.alloc_class);
      if (row < 0) return;
      const double bytes_each = counter.weight(row, rate).words * kBytesPerWord;
      const double born = static_cast<double>(cell.allocated - cell.never_followed);
      const double gone = born - cell_samples(cell, Blocks::kLive);
      for (Counted* of : all) {
        for (const int group : of->grouping.groups_of_row[row]) {
          of->growths[group].course.born(born, bytes_each);
          of->growths[group].course.gone(gone, bytes_each);
        }
      }
    });
    const double seconds = static_cast<double>(window->end_ns() - window->begin_ns()) / 1e9;
    for (Counted* of : all) {
      for (Growth& growth : of->growths) growth.course.end_window(seconds);
    }
  }
  for (Counted* of : all) {
    for (Growth& growth : of->growths) growth.course.end_step();
  }
}

void add_steps(const RangeCounter& counter, const std::vector<SessionSpan>& spans, const All& all) {
  for (Counted* of : all) {
    for (Growth& growth : of->growths) {
      growth.course = LiveTrend(growth.chance.begin.words * kBytesPerWord);
    }
  }
  for (const SessionSpan& span : spans) {
    for (const auto& step : counter.steps(span.begin_ns, span.end_ns, kSteps / spans.size())) {
      add_step(counter, step, all);
    }
    for (Counted* of : all) {
      for (Growth& growth : of->growths) growth.course.end_span();
    }
  }
}

// Adds live memory, by row, to one of the ends.
void add_live(const RangeCounter& counter, const std::vector<Portion>& live, Portion Ends::*end,
              const All& all) {
  const std::vector<Portion> sampled = counter.sampled(live);
  for (Counted* of : all) {
    of->add(live, [&](Growth& growth) -> Portion& { return growth.chance.*end; });
    of->add(live, [&](Growth& growth) -> Portion& { return growth.span.*end; });
    of->add(sampled, [&](Growth& growth) -> Portion& { return growth.sampled.*end; });
  }
}

void end_span(const SessionSpan& span, const All& all) {
  for (Counted* of : all) {
    for (Growth& growth : of->growths) {
      growth.weighed.add(std::exchange(growth.span, {}), span.seconds());
    }
  }
}

// Adds memory that is live at both ends of the span.
void add_old(const RangeCounter& counter, const SessionSpan& span, const All& all) {
  add_live(counter, counter.born_before({&span.begin_ns, 1}, span.end_ns).front(), &Ends::old, all);
}

// A major collection marks what it finds reachable after its start. So a block that lives at its
// end and was born before its start was reachable at some moment in between; all others may be
// garbage. That floating garbage grows with the heap at every site, whichever of them leaks.
//
// Returns a time before the last collection of the span began; its end if the history does not
// contain collections.
std::uint64_t settled_until(const RangeCounter& counter, const SessionSpan& span) {
  const auto windows = counter.finest(span.begin_ns, span.end_ns);
  if (windows.empty() || windows.back()->at_end().heap_words == 0) return span.end_ns;
  const std::uint64_t collections = windows.back()->at_end().major_collections;
  std::uint64_t result = span.begin_ns;
  for (const HistoryWindowPtr& window : windows) {
    if (window->at_end().major_collections + 2 <= collections) result = window->end_ns();
  }
  return result;
}

// Adds the memory that is live at the end of the range and older than each age, and that older than
// the last span. Needs only one pass over the history.
void add_ages(const RangeCounter& counter, const std::vector<std::uint64_t>& ages,
              const SessionSpan& last, const All& all) {
  std::vector<std::uint64_t> times{last.begin_ns, settled_until(counter, last)};
  for (const std::uint64_t age : ages) times.push_back(last.end_ns - age);
  std::vector<std::uint64_t> latest_first = times;
  std::sort(latest_first.begin(), latest_first.end(), std::greater<>());
  const auto rows = counter.born_before(latest_first, last.end_ns);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const auto at = std::find(latest_first.begin(), latest_first.end(), times[i]);
    const std::vector<Portion>& live = rows[at - latest_first.begin()];
    if (i == 0) {
      add_live(counter, live, &Ends::old, all);
      continue;
    }
    if (i == 1) {
      for (Counted* of : all) {
        of->add(live, [](Growth& growth) -> Portion& { return growth.settled; });
      }
      continue;
    }
    for (Counted* of : all) {
      std::vector<Portion> older(of->growths.size());
      of->grouping.add(live, [&](int group) -> Portion& { return older[group]; });
      for (std::size_t g = 0; g < older.size(); ++g) {
        of->growths[g].older.push_back(older[g].words);
      }
    }
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

// Variance of the growth, in words^2, if blocks are allocated and freed one by one.
double single_variance(const Growth& growth) {
  const Ends& of = growth.chance;
  const double old = std::max(0.0, of.old.variance_words2);
  return std::max(0.0, of.end.variance_words2 - old) +
         std::max(0.0, of.begin.variance_words2 - old);
}

// Factor, at least 1, by which it is larger.
double dispersion_of(const Growth& growth) {
  const double single = single_variance(growth) * kBytesPerWord * kBytesPerWord;
  const double course = growth.course.dispersion();
  return single > 0 ? std::max(course, growth.course.variance_of_ends() / single) : course;
}

// Probability of less growth than this if births and deaths are equally likely. Each span is
// weighted by its own error, so that a span with few samples (at a low rate) does not hide the
// others. Samples are whole numbers, so half a sample in each direction is subtracted; otherwise
// three births and no death would give 96 % instead of 87 %. share: part of the growth that counts.
double confidence(const Growth& growth, double share = 1) {
  const WeighedGrowth& of = growth.weighed;
  const double grown = of.growth * share;
  const double variance = of.weight * dispersion_of(growth);
  const double sample = of.turned > 0 ? variance / of.turned : 0;
  const double beyond = std::max(0.0, std::abs(grown) - sample);
  return chance_beyond(-std::copysign(beyond, grown) / std::sqrt(variance));
}

// Limits of the growth, from the blocks that are live at only one of the ends. Lifetimes are known
// only by bucket, so one end may come out slightly negative; both are then shifted by that amount.
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
  out.growth_limits = growth_limits(growth.sampled, unseen_words);
  out.growth_bytes = (of.end.words - of.begin.words) * kBytesPerWord;
  out.growth_bytes_stderr =
      std::sqrt(single_variance(growth) * dispersion_of(growth)) * kBytesPerWord;
  if (growth.weighed.weight > 0) out.confidence = confidence(growth);
  out.steadiness = growth.course.steadiness();
  return out;
}

double at_least(const LeakGrowth& growth) {
  return growth.growth_bytes - kQuantile95 * growth.growth_bytes_stderr;
}

// Probability that a group without a leak looks like this.
double chance_of(const Growth& growth, const LeakGrowth& summary) {
  const double error = summary.growth_bytes_stderr;
  if (error <= 0 || growth.course.has_slowed_down(error)) return 1;
  const double floating = std::max(0.0, growth.now.words - growth.settled.words) * kBytesPerWord;
  if (growth.weighed.weight <= 0 || summary.growth_bytes <= floating) return 1;
  const double settled = 1 - floating / summary.growth_bytes;
  return std::max(1 - confidence(growth, settled), growth.course.chance_of_rise());
}

void count_growths(const RangeCounter& counter, const std::vector<SessionSpan>& spans,
                   const std::vector<std::uint64_t>& ages, const All& all) {
  for (const SessionSpan& span : spans) {
    add_live(counter, counter.live_at(span.begin_ns), &Ends::begin, all);
    const std::vector<Portion> at_end = counter.live_at(span.end_ns);
    add_live(counter, at_end, &Ends::end, all);
    if (&span != &spans.back()) {
      add_old(counter, span, all);
      end_span(span, all);
      continue;
    }
    const std::vector<Portion> sampled = counter.sampled(at_end);
    for (Counted* of : all) {
      of->add(at_end, [](Growth& growth) -> Portion& { return growth.now; });
      of->add(sampled, [](Growth& growth) -> Portion& { return growth.now_sampled; });
    }
  }
  add_steps(counter, spans, all);
  add_ages(counter, ages, spans.back(), all);
  end_span(spans.back(), all);
}

double seconds_of(const std::vector<SessionSpan>& spans) {
  return std::accumulate(spans.begin(), spans.end(), 0.0,
                         [](double sum, const SessionSpan& span) { return sum + span.seconds(); });
}

// Data that all searches of one question compare.
struct Compared {
  const ProfileSnapshot& snapshot;
  const RangeCounter& counter;
  const TargetProfile& profile;  // everything that the filter passes, at any time
  const std::vector<SessionSpan>& spans;
  const std::vector<std::uint64_t>& ages;
  double unseen_words;  // for everything that is live at the end
};

// The groups of one kind. Call judge() when their growth has been counted.
class Search : public Counted {
 public:
  Search(const Compared& compared, const GroupsBy& asked)
      : Counted(compared.counter, compared.snapshot, compared.profile, asked), by(asked) {}

  const GroupsBy by;
  std::vector<LeakGrowth> summaries;  // by group
  std::vector<double> chances;        // by group; 1 if nothing is live

  void judge(const Compared& compared) {
    for (const Growth& growth : growths) {
      summaries.push_back(summary_of(growth, compared.unseen_words));
      chances.push_back(growth.now.words > 0 ? chance_of(growth, summaries.back()) : 1);
    }
  }
  // Groups without live memory cannot leak and are not examined.
  bool is_live(std::size_t group) const { return growths[group].now.words > 0; }
  std::vector<std::size_t> live_groups() const {
    std::vector<std::size_t> groups;
    for (std::size_t group = 0; group < growths.size(); ++group) {
      if (is_live(group)) groups.push_back(group);
    }
    return groups;
  }
  // Orders by the lower limit of growth, then by live memory, ties by name.
  bool ranks_before(std::size_t a, std::size_t b) const {
    const double x = at_least(summaries[a]), y = at_least(summaries[b]);
    if (x != y) return x > y;
    const double a_live = growths[a].now.words, b_live = growths[b].now.words;
    if (a_live != b_live) return a_live > b_live;
    return grouping.grouper.compare(a, b) < 0;
  }
  std::vector<std::size_t> ranked(std::vector<std::size_t> groups, std::size_t limit) const {
    sort_and_cut(groups, limit,
                 [this](std::size_t a, std::size_t b) { return ranks_before(a, b); });
    return groups;
  }
};

void count_and_judge(const Compared& compared, const std::vector<Search*>& searches) {
  count_growths(compared.counter, compared.spans, compared.ages,
                All(searches.begin(), searches.end()));
  for (Search* search : searches) search->judge(compared);
}

// Marks the highest-ranked of the shown groups that have blocks of the suspect, unless one of them
// is already marked.
void name_one(const Search& search, std::size_t suspect, const Search& shown,
              std::vector<bool>& is_named) {
  std::optional<std::size_t> largest;
  for (std::size_t row = 0; row < search.grouping.groups_of_row.size(); ++row) {
    const Grouping::Groups& groups = search.grouping.groups_of_row[row];
    if (groups.empty() || static_cast<std::size_t>(groups[0]) != suspect) continue;
    const auto group = static_cast<std::size_t>(shown.grouping.groups_of_row[row][0]);
    if (is_named[group]) return;
    if (shown.is_live(group) && (!largest || shown.ranks_before(group, *largest))) largest = group;
  }
  if (largest) is_named[*largest] = true;
}

// The chances of all groups with live memory.
std::vector<double> chances_of(const std::vector<const Search*>& searches) {
  std::vector<double> chances;
  for (const Search* search : searches) {
    for (const std::size_t group : search->live_groups()) {
      chances.push_back(search->chances[group]);
    }
  }
  return chances;
}

// Whether a site that grows in every step would be named among those that do not.
bool has_enough_steps(const Search& search, std::size_t chances, double false_discoveries) {
  if (search.growths.empty()) return true;
  std::vector<double> rising(search.growths[0].course.live_bytes().size());
  std::iota(rising.begin(), rising.end(), 0.0);
  std::vector<double> all(std::max<std::size_t>(chances, 1), 1.0);
  all[0] = chance_of_rise(rising);
  return discoveries(all, false_discoveries)[0];
}

// Chooses the shown groups to name. truth: searches in which no frame is hidden; chances: theirs.
std::vector<std::size_t> suspects_of(const std::vector<const Search*>& truth,
                                     const std::vector<double>& chances, const Search& shown,
                                     double false_discoveries) {
  double highest = -1;
  const std::vector<bool> low = discoveries(chances, false_discoveries);
  for (std::size_t i = 0; i < low.size(); ++i) {
    if (low[i]) highest = std::max(highest, chances[i]);
  }
  std::vector<bool> is_named(shown.growths.size());
  for (const std::size_t group : shown.live_groups()) {
    is_named[group] = shown.chances[group] <= highest;
  }
  for (const Search* search : truth) {
    for (const std::size_t group : search->live_groups()) {
      if (search->chances[group] <= highest) name_one(*search, group, shown, is_named);
    }
  }
  std::vector<std::size_t> named;
  for (std::size_t group = 0; group < is_named.size(); ++group) {
    if (is_named[group]) named.push_back(group);
  }
  return named;
}

// ---------------------------------------------------------------- steps

struct Steps {
  std::size_t row;  // row of the snapshot with the last block
  StepGrowth growth;
};

// Sites of large blocks that grow in steps, by application frames with nothing hidden.
std::vector<Steps> find_steps(const Compared& compared, const TimeRange& range) {
  struct Site {
    std::vector<LargeBlock> blocks;
    std::size_t last_row = 0;
    double live_words = 0;  // in large blocks
  };
  const RangeCounter& counter = compared.counter;
  const Grouping sites(counter, compared.snapshot, compared.profile,
                       {.site_frame = SiteFrame::kApplication});
  std::vector<Site> of_site(sites.grouper.size());
  const auto block_words = [&](std::size_t row) {
    return compared.snapshot.rows[row].alloc_class.block_words();
  };
  // True if at least nine of ten blocks of that size are sampled.
  const auto is_sure = [&](std::size_t row, double words_each) {
    return compared.snapshot.rows[row].alloc_class.size.fine() &&
           words_each <= block_words(row) / 0.9;
  };
  const std::uint64_t known_ns = std::max(range.begin_ns, compared.snapshot.history.oldest_ns());
  for (const HistoryWindowPtr& window : counter.finest(known_ns, range.end_ns)) {
    window->for_each_count([&](const WindowCell& cell, double rate) {
      const int found = counter.row_of(cell.alloc_class);
      if (found < 0 || cell.allocated == 0) return;
      const auto row = static_cast<std::size_t>(found);
      if (sites.groups_of_row[row].empty() || !is_sure(row, counter.weight(found, rate).words)) {
        return;
      }
      Site& site = of_site[sites.groups_of_row[row][0]];
      for (std::uint64_t i = 0; i < cell.allocated && site.blocks.size() <= kMaxLargeBlocks; ++i) {
        site.blocks.push_back({window->end_ns(), block_words(row)});
      }
      site.last_row = row;
    });
  }
  const std::vector<Portion> live = counter.live_at(range.end_ns);
  for (std::size_t row = 0; row < live.size(); ++row) {
    if (live[row].samples <= 0 || sites.groups_of_row[row].empty()) continue;
    if (!is_sure(row, live[row].words / live[row].samples)) continue;
    of_site[sites.groups_of_row[row][0]].live_words += live[row].samples * block_words(row);
  }
  std::vector<Steps> result;
  for (const Site& site : of_site) {
    const auto growth = growth_in_steps(site.blocks, site.live_words, range.begin_ns, range.end_ns);
    if (growth) result.push_back({site.last_row, *growth});
  }
  return result;
}

// Replaces the estimated growth by that of the steps, which is more accurate.
void set_steps(const StepGrowth& steps, double seconds, LeakSuspect& suspect) {
  suspect.in_steps = true;
  // Answers report the growth over the compared time.
  const double share = steps.seconds > 0 ? seconds / steps.seconds : 0;
  suspect.growth_bytes = (steps.end_words - steps.begin_words) * kBytesPerWord * share;
  suspect.growth_bytes_stderr = steps.words_stderr * kBytesPerWord * share;
  const double beyond = 1.96 * suspect.growth_bytes_stderr;
  suspect.growth_limits = {std::max(0.0, suspect.growth_bytes - beyond),
                           suspect.growth_bytes + beyond};
  suspect.confidence = steps.confidence;
}

// ---------------------------------------------------------------- roll-ups

// hidden: omitted from the displayed callstack.
LeakRollUp rolled_up(const Search& search, std::size_t group, bool certain,
                     const LocationMatcher* hidden, const Compared& compared,
                     const TargetProfile& at_end) {
  LeakRollUp result{.group_by = search.by.key, .certain = certain, .suspect = {}};
  static_cast<LeakGrowth&>(result.suspect) = search.summaries[group];
  const MedianAge age = age_of(search.growths[group], compared.ages,
                               compared.spans.back().end_ns - compared.counter.begin_ns());
  result.suspect.median_age_seconds = age.seconds;
  result.suspect.median_age_limits = age.limits;
  Group& counts = result.suspect.group;
  static_cast<GroupName&>(counts) = search.grouping.grouper.name(group);
  counts.unseen = at_end.unseen;
  double most = -1;
  for (const ProfileRow& row : at_end.rows) {
    const auto& groups = search.grouping.groups_of_row[compared.counter.row_of(row.id)];
    if (std::ranges::find(groups, static_cast<int>(group)) == groups.end()) continue;
    counts.add_class(row.alloc_class, row.counters);
    if (row.counters.live.words <= most) continue;
    most = row.counters.live.words;
    counts.heaviest = row.callstack;
  }
  VisibleFrames frames(*compared.profile.symbolizer, hidden, search.by.site_frame);
  counts.set_callstack(frames);
  return result;
}

// Groups whose growth is significant given the number of groups, largest growth first.
std::vector<std::size_t> discovered(const Search& search) {
  const std::vector<std::size_t> groups = search.live_groups();
  std::vector<double> chances;
  chances.reserve(groups.size());
  for (const std::size_t group : groups) chances.push_back(search.chances[group]);
  const std::vector<bool> low = discoveries(chances, kFalseRollUps);
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (low[i]) result.push_back(groups[i]);
  }
  return search.ranked(std::move(result), 0);
}

// The most specific function that has most of the growth; see kMaxOfGrowth.
std::optional<std::size_t> best_caller(const Search& callers) {
  const std::vector<std::size_t> functions = discovered(callers);
  std::optional<std::size_t> best;
  for (const std::size_t group : functions) {
    const double most = callers.summaries[functions[0]].growth_bytes;
    if (callers.summaries[group].growth_bytes < kMaxOfGrowth * most) continue;
    if (!best || callers.growths[group].now.words < callers.growths[*best].now.words) best = group;
  }
  return best;
}

std::vector<LeakRollUp> roll_up_growth(const Compared& compared, const LocationMatcher* hidden,
                                       const TargetProfile& at_end) {
  Search modules(compared, {.site_frame = SiteFrame::kApplication, .key = GroupBy::kModule});
  Search callers(
      compared,
      {.site_frame = SiteFrame::kApplication, .key = GroupBy::kFunction, .callers = true});
  count_and_judge(compared, {&modules, &callers});
  std::vector<LeakRollUp> result;
  const auto add = [&](const Search& search, std::size_t group, bool certain) {
    result.push_back(rolled_up(search, group, certain, hidden, compared, at_end));
  };
  for (const std::size_t group : discovered(modules)) {
    if (result.size() < kRolledUp) add(modules, group, true);
  }
  if (const auto caller = best_caller(callers)) add(callers, *caller, true);
  if (!result.empty()) return result;
  for (const std::size_t group : modules.ranked(modules.live_groups(), kRolledUp)) {
    if (modules.summaries[group].confidence >= kMinHint) add(modules, group, false);
  }
  return result;
}

// ---------------------------------------------------------------- the answer

// Counts the lifetimes of the chosen groups only: they are most of the work, and a search ranks ten
// thousand groups but names a hundred. rows: the rows of at_end.
void count_lifetimes_of(const std::vector<std::size_t>& chosen, const GroupedRows& rows,
                        const ProfileSnapshot& snapshot, TargetProfile& at_end) {
  std::vector<bool> wanted(rows.grouper().size());
  for (const std::size_t group : chosen) wanted[group] = true;
  std::vector<ProfileRow*> of_chosen;
  for (std::size_t row = 0; row < at_end.rows.size(); ++row) {
    if (wanted[rows.group_of_row(row)]) of_chosen.push_back(&at_end.rows[row]);
  }
  count_lifetimes(snapshot, at_end.range, of_chosen);
}

}  // namespace

absl::StatusOr<LeakAnswer> find_leaks(const ProfileSnapshot& snapshot, const TimeRange& asked,
                                      const Filter& filter, const LeakQuery& query) {
  if (!filter.lifetime.takes_all()) {
    return absl::InvalidArgumentError(
        "the search for leaks has its own age limits; omit the lifetime filters");
  }
  const RangeCounter counter(snapshot, VarianceModel::kChance);
  ASSIGN_OR_RETURN(TargetProfile profile, select(snapshot, {}, filter));
  const TimeRange whole = counter.resolve(asked);
  TimeRange range = whole;
  const std::vector<SessionSpan> spans = session_spans(
      counter, range, query.limit == 0 ? SpanEnds::kAtCollections : SpanEnds::kAnywhere);
  if (spans.empty()) return LeakAnswer{.range = range};
  range = {spans.front().begin_ns, spans.back().end_ns};
  const double seconds = seconds_of(spans);
  const std::uint64_t span_ns = range.end_ns - counter.begin_ns();
  const std::vector<std::uint64_t> ages = ages_within(counter, range.end_ns);
  ASSIGN_OR_RETURN(TargetProfile at_end,
                   select(snapshot, {range.begin_ns, range.end_ns}, filter, Lifetimes::kLeftOut));
  const Compared compared{snapshot, counter, profile, spans, ages, at_end.unseen.live};
  Search shown(
      compared,
      {.hidden = profile.hidden.get(), .site_frame = profile.site_frame, .key = query.group_by});
  std::vector<Search*> searches{&shown};
  std::vector<const Search*> truth;
  std::vector<std::unique_ptr<Search>> others;
  for (const SiteFrame site_frame : {SiteFrame::kInnermost, SiteFrame::kApplication}) {
    if (query.limit != 0) break;
    auto other = std::make_unique<Search>(
        compared, GroupsBy{.hidden = nullptr, .site_frame = site_frame, .key = query.group_by});
    const auto known = std::ranges::find_if(searches, [&](const Search* search) {
      return search->grouping.same_groups(other->grouping);
    });
    const Search* search = known != searches.end() ? *known : other.get();
    if (search == other.get()) {
      searches.push_back(other.get());
      others.push_back(std::move(other));
    }
    if (std::ranges::find(truth, search) == truth.end()) truth.push_back(search);
  }
  count_and_judge(compared, searches);

  std::vector<std::size_t> chosen = shown.live_groups();
  const double rate = snapshot.info.sampling_rate;
  const double least_leak = rate > 0 ? samples_to_be_named(chosen.size(), query.false_discoveries) *
                                           kBytesPerWord / rate / seconds
                                     : 0;
  std::vector<std::optional<StepGrowth>> steps(shown.growths.size());
  const std::vector<double> chances = chances_of(truth);
  if (query.limit == 0) {
    chosen = suspects_of(truth, chances, shown, query.false_discoveries);
    for (const Steps& found : find_steps(compared, whole)) {
      const auto group = static_cast<std::size_t>(shown.grouping.groups_of_row[found.row][0]);
      if (!shown.is_live(group) || std::ranges::find(chosen, group) != chosen.end()) continue;
      steps[group] = found.growth;
      chosen.push_back(group);
    }
  }
  chosen = shown.ranked(std::move(chosen), query.limit);

  // Maps each group to its number in `rows`.
  GroupedRows rows(at_end, query.group_by);
  std::vector<std::size_t> row_group(shown.growths.size());
  for (std::size_t row = 0; row < at_end.rows.size(); ++row) {
    const auto& groups = shown.grouping.groups_of_row[counter.row_of(at_end.rows[row].id)];
    row_group[groups[0]] = rows.group_of_row(row);
  }
  std::vector<std::size_t> named;
  named.reserve(chosen.size());
  for (const std::size_t group : chosen) named.push_back(row_group[group]);
  count_lifetimes_of(named, rows, snapshot, at_end);
  std::vector<Group> groups = rows.sums(named, Measure::kLive);
  LeakAnswer answer{
      .range = range,
      .compared_seconds = seconds,
      .has_enough_steps = has_enough_steps(shown, chances.size(), query.false_discoveries),
      .least_leak_bytes_per_second = least_leak};
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    LeakSuspect& suspect = answer.suspects.emplace_back();
    static_cast<LeakGrowth&>(suspect) = shown.summaries[chosen[i]];
    const MedianAge age = age_of(shown.growths[chosen[i]], ages, span_ns);
    suspect.median_age_seconds = age.seconds;
    suspect.median_age_limits = age.limits;
    suspect.group = std::move(groups[i]);
    suspect.group.set_callstack(rows.frames());
    if (steps[chosen[i]]) set_steps(*steps[chosen[i]], seconds, suspect);
  }
  if (query.limit == 0 && query.roll_up && chosen.empty()) {
    answer.rolled_up = roll_up_growth(compared, profile.hidden.get(), at_end);
  }
  return answer;
}

}  // namespace memprofd
