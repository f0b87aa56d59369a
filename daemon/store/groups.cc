#include "daemon/store/groups.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"

namespace memprofd {
namespace {

constexpr double kNsPerSecond = 1e9;

const Estimate* estimate_of(const Counters& counters, Measure measure) {
  switch (measure) {
    case Measure::kLive:
      return &counters.live;
    case Measure::kAllocated:
    case Measure::kSamples:
      return &counters.allocated;
    case Measure::kPromoted:
      return &counters.promoted;
    case Measure::kDiedYoung:
      return &counters.deallocated[static_cast<int>(Heap::kMinor)];
    case Measure::kDiedOld:
      return &counters.deallocated[static_cast<int>(Heap::kMajor)];
    case Measure::kLifetime:
    case Measure::kAllocatedObjects:
    case Measure::kLiveObjects:
      break;
  }
  return nullptr;
}

// All blocks of a class have one size, so that objects are words by a factor.
double objects_variance(const Estimate& estimate, double objects) {
  if (estimate.words <= 0) return 0;
  const double per_word = objects / estimate.words;
  return estimate.variance_words2 * per_word * per_word;
}

auto tie(const Location& location) {
  return std::tie(location.function, location.file, location.line, location.start_column,
                  location.end_column, location.module);
}

bool is_unit_name(std::string_view name) {
  if (name.empty() || !absl::ascii_isupper(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '\'';
  });
}

// One text per group of sites.
std::string text_of(const GroupName& name) {
  const Location& location = name.location;
  return absl::StrCat(location.function, std::string(1, '\0'), location.file, std::string(1, '\0'),
                      location.line, std::string(1, '\0'), location.module, std::string(1, '\0'),
                      name.unit);
}

// Sums rows up.
class RollUp {
 public:
  RollUp(VisibleFrames& frames, GroupBy by, Measure order) : grouper_(frames, by), order_(order) {}

  void add(const ProfileRow& row) {
    const std::size_t index = grouper_.group_of(row.alloc_class, *row.callstack);
    if (index >= sums_.size()) sums_.resize(index + 1);
    Sum& sum = sums_[index];
    sum.counts.add_class(row.counters);
    const double weight = measure_value(row.counters, order_);
    if (sum.heaviest != nullptr && weight <= sum.weight) return;
    sum.weight = weight;
    sum.heaviest = &row;
  }
  std::vector<Group> finish() && {
    std::vector<Group> groups(sums_.size());
    for (std::size_t i = 0; i < groups.size(); ++i) {
      static_cast<GroupName&>(groups[i]) = grouper_.name(i);
      static_cast<GroupCounts&>(groups[i]) = std::move(sums_[i].counts);
      groups[i].heaviest = sums_[i].heaviest->callstack;
    }
    return groups;
  }

 private:
  struct Sum {
    GroupCounts counts;
    const ProfileRow* heaviest = nullptr;
    double weight = 0;
  };
  Grouper grouper_;
  const Measure order_;
  std::vector<Sum> sums_;
};

}  // namespace

std::strong_ordering operator<=>(const GroupName& a, const GroupName& b) {
  const auto head = [](const GroupName& name) {
    return std::tuple_cat(tie(name.location), std::tie(name.unit, name.thread, name.domain));
  };
  if (const auto order = head(a) <=> head(b); order != 0) return order;
  return std::lexicographical_compare_three_way(
      a.path.begin(), a.path.end(), b.path.begin(), b.path.end(), [](const auto& x, const auto& y) {
        return x == y ? std::strong_ordering::equal : tie(*x) <=> tie(*y);
      });
}

void GroupCounts::add_class(const Counters& added) {
  counters += added;
  allocated_objects_variance += objects_variance(added.allocated, added.allocated_objects);
  live_objects_variance += objects_variance(added.live, added.live_objects);
}

GroupCounts& GroupCounts::operator+=(const GroupCounts& other) {
  counters += other.counters;
  allocated_objects_variance += other.allocated_objects_variance;
  live_objects_variance += other.live_objects_variance;
  return *this;
}

void Group::set_callstack(VisibleFrames& frames) {
  callstack.clear();
  if (path.empty() && heaviest != nullptr) callstack = frames.locations(*heaviest);
  for (const auto& location : path) callstack.push_back(*location);
}

double measure_value(const Counters& counters, Measure measure) {
  switch (measure) {
    case Measure::kSamples:
      return static_cast<double>(counters.allocated.samples);
    case Measure::kLifetime:
      return counters.deaths.empty() ? 0
                                     : counters.deaths.histogram().quantile_ns(0.5) / kNsPerSecond;
    case Measure::kAllocatedObjects:
      return counters.allocated_objects;
    case Measure::kLiveObjects:
      return counters.live_objects;
    default:
      return estimate_of(counters, measure)->bytes();
  }
}

double measure_stderr(const GroupCounts& counts, Measure measure) {
  switch (measure) {
    case Measure::kSamples:
      return std::sqrt(static_cast<double>(counts.counters.allocated.samples));
    case Measure::kLifetime:
      return 0;
    case Measure::kAllocatedObjects:
      return std::sqrt(counts.allocated_objects_variance);
    case Measure::kLiveObjects:
      return std::sqrt(counts.live_objects_variance);
    default:
      return estimate_of(counts.counters, measure)->stderr_bytes();
  }
}

std::string compilation_unit(const Location& location) {
  std::string head = location.function.substr(0, location.function.find('.'));
  if (is_unit_name(head)) return head;
  return location.module.empty() ? "(no module)" : location.module;
}

GroupName Grouper::name_of(const Location& site) const {
  GroupName name;
  switch (by_) {
    case GroupBy::kFile:
      name.location.file = site.file;
      break;
    case GroupBy::kModule:
      name.unit = compilation_unit(site);
      break;
    case GroupBy::kLibrary:
      name.location.module = site.module;
      break;
    case GroupBy::kSite:
    case GroupBy::kCallstack:
      name.location.line = site.line;
      [[fallthrough]];
    case GroupBy::kFunction:
      name.location.function = site.function;
      name.location.file = site.file;
      break;
    case GroupBy::kThread:
    case GroupBy::kDomain:
      break;
  }
  return name;
}

std::size_t Grouper::number(GroupName name) {
  names_.push_back(std::move(name));
  return names_.size() - 1;
}

std::size_t Grouper::group_of(LocationId site) {
  if (site.value() >= by_site_.size()) by_site_.resize(frames_.size());
  std::uint32_t& known = by_site_[site.value()];
  if (known == 0) {
    GroupName name = name_of(frames_.location(site));
    const auto [it, is_new] = by_text_.try_emplace(text_of(name), names_.size());
    if (is_new) number(std::move(name));
    known = static_cast<std::uint32_t>(it->second) + 1;
  }
  return known - 1;
}

std::size_t Grouper::group_of_path(const Callstack& callstack) {
  const auto [it, is_new] = by_path_.try_emplace(frames_.location_ids(callstack), names_.size());
  if (is_new) {
    const std::vector<LocationId>& path = it->first;
    GroupName name = name_of(frames_.location(path.front()));
    name.path.reserve(path.size());
    for (const LocationId id : path) name.path.push_back(frames_.shared(id));
    number(std::move(name));
  }
  return it->second;
}

std::size_t Grouper::group_of_number(std::uint32_t thread_or_domain) {
  const auto [it, is_new] = by_number_.try_emplace(thread_or_domain, names_.size());
  if (is_new) {
    GroupName name;
    (by_ == GroupBy::kThread ? name.thread : name.domain) = thread_or_domain;
    number(std::move(name));
  }
  return it->second;
}

std::size_t Grouper::group_of(const AllocClass& alloc_class, const Callstack& callstack) {
  switch (by_) {
    case GroupBy::kCallstack:
      return group_of_path(callstack);
    case GroupBy::kThread:
      return group_of_number(alloc_class.thread);
    case GroupBy::kDomain:
      return group_of_number(alloc_class.domain);
    default:
      return group_of(frames_.site(callstack));
  }
}

void sort_groups(std::vector<Group>& groups, Measure order, std::size_t limit) {
  std::vector<std::pair<double, std::size_t>> ranks;
  ranks.reserve(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    ranks.emplace_back(measure_value(groups[i].counters, order), i);
  }
  const std::size_t n = limit == 0 ? ranks.size() : std::min(limit, ranks.size());
  std::partial_sort(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(n), ranks.end(),
                    [&](const auto& a, const auto& b) {
                      if (a.first != b.first) return a.first > b.first;
                      return groups[a.second].name() < groups[b.second].name();
                    });
  std::vector<Group> sorted;
  sorted.reserve(n);
  for (std::size_t i = 0; i < n; ++i) sorted.push_back(std::move(groups[ranks[i].second]));
  groups = std::move(sorted);
}

GroupResult roll_up(const TargetProfile& profile, const GroupQuery& query) {
  VisibleFrames frames(profile);
  RollUp sums(frames, query.group_by, query.order);
  for (const ProfileRow& row : profile.rows) sums.add(row);
  GroupResult result;
  result.groups = std::move(sums).finish();
  result.n_groups = result.groups.size();
  for (const Group& group : result.groups) result.total += group;
  sort_groups(result.groups, query.order, query.limit);
  for (Group& group : result.groups) {
    if (query.with_callstack || query.group_by == GroupBy::kCallstack) group.set_callstack(frames);
  }
  return result;
}

std::vector<Group> all_sites(const TargetSnapshot& snapshot) {
  VisibleFrames frames(*snapshot.symbolizer, nullptr);
  RollUp sums(frames, GroupBy::kSite, Measure::kAllocated);
  for (const ProfileRow& row : snapshot.rows) sums.add(row);
  return std::move(sums).finish();
}

}  // namespace memprofd
