#include "daemon/store/sites.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace memprofd {
namespace {

// Locations shown of a site's callstack at most.
constexpr std::size_t kMaxLocations = 256;

struct Accumulated {
  Site site;
  const Callstack* heaviest = nullptr;
  double heaviest_weight = -1;
};

double weight(const CallstackCounters& counters, SiteOrder order) {
  switch (order) {
    case SiteOrder::kAllocated:
      return counters.allocated.words;
    case SiteOrder::kLive:
      return counters.live.words;
    case SiteOrder::kPromoted:
      return counters.promoted.words;
    case SiteOrder::kSamples:
      return static_cast<double>(counters.allocated.samples);
    case SiteOrder::kLifetime:
      return counters.lifetime.quantile_ns(0.5);
  }
  return 0;
}

bool matches(const Location& location, const std::string& pattern) {
  return location.function.find(pattern) != std::string::npos ||
         location.file.find(pattern) != std::string::npos;
}

using SiteKey = std::tuple<std::string, std::string, std::uint32_t>;

std::vector<Accumulated> accumulate(const TargetSnapshot& snapshot, const SiteQuery& query) {
  absl::flat_hash_map<SiteKey, std::size_t> index;
  std::vector<Accumulated> sites;
  for (const CallstackStats& stats : snapshot.callstacks) {
    Location location = site_of(*snapshot.symbolizer, *stats.callstack);
    if (!matches(location, query.pattern)) continue;
    SiteKey key(location.function, location.file, location.line);
    const auto [it, is_new] = index.try_emplace(std::move(key), sites.size());
    if (is_new) sites.emplace_back().site.location = std::move(location);
    Accumulated& into = sites[it->second];
    into.site.counters += stats.counters;
    const double heaviness = weight(stats.counters, query.order);
    if (heaviness > into.heaviest_weight) {
      into.heaviest_weight = heaviness;
      into.heaviest = stats.callstack.get();
    }
  }
  return sites;
}

void sort_and_cut(std::vector<Accumulated>& sites, const SiteQuery& query) {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    order.emplace_back(weight(sites[i].site.counters, query.order), i);
  }
  const std::size_t limit = query.limit == 0 ? order.size() : std::min(query.limit, order.size());
  const auto tie = [&](std::size_t i) {
    const Location& location = sites[i].site.location;
    return std::tie(location.function, location.file, location.line);
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(limit), order.end(),
                    [&](const auto& a, const auto& b) {
                      if (a.first != b.first) return a.first > b.first;
                      return tie(a.second) < tie(b.second);
                    });
  std::vector<Accumulated> sorted;
  for (std::size_t i = 0; i < limit; ++i) sorted.push_back(std::move(sites[order[i].second]));
  sites = std::move(sorted);
}

}  // namespace

std::vector<Site> roll_up_sites(const TargetSnapshot& snapshot, const SiteQuery& query) {
  std::vector<Accumulated> sites = accumulate(snapshot, query);
  sort_and_cut(sites, query);
  std::vector<Site> result;
  result.reserve(sites.size());
  for (Accumulated& accumulated : sites) {
    if (query.with_callstack) {
      accumulated.site.callstack =
          symbolize(*snapshot.symbolizer, *accumulated.heaviest, kMaxLocations);
    }
    result.push_back(std::move(accumulated.site));
  }
  return result;
}

}  // namespace memprofd
