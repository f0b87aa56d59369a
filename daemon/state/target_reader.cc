// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/target_reader.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/query/range_counter.h"
#include "daemon/state/moment_records.h"
#include "daemon/state/record_log.h"
#include "daemon/state/stored_symbolizer.h"
#include "daemon/state/value_records.h"
#include "daemon/state/window_records.h"
#include "daemon/util/stable_vector.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Maximum difference of words that are summed in another order. Counters must not fall, so inexact
// ones become slightly larger.
constexpr double kRounding = 1e-9;

struct ExactWords {
  double allocated, promoted, died_young, died_old, lifetimes_ns;
};

struct StoredClass {
  AllocClass alloc_class;
  Counters counts;  // until the first moment's last window
  ExactWords exact{};
};

// Reads records, moment by moment.
class StoredRecords {
 public:
  // Returns false if the record is invalid; later ones are then ignored.
  bool take(std::string_view bytes) {
    state::Record record;
    if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
    const bool complete = record.complete();
    pending_.push_back(std::move(record));
    if (!complete) return true;
    if (!pending_.back().has_moment() || !take_windows()) return false;
    for (const state::Record& one : pending_) add(one);
    moment_ = std::move(*pending_.back().mutable_moment());
    pending_.clear();
    if (!whole_) counted_until_ns_ = last_end_ns_;
    return whole_ = true;
  }
  absl::StatusOr<StoredTarget> finish(const std::string& path);

 private:
  bool take_windows();
  void add(const state::Record& record);
  void add_exact(const state::ExactWords& exact);
  std::shared_ptr<ProfileSnapshot> empty_snapshot();
  void add_rows(ProfileSnapshot& snapshot);
  void add_live(ProfileSnapshot& snapshot);
  void count(ProfileSnapshot& snapshot);
  std::shared_ptr<const PeakLive> peak(const ProfileSnapshot& snapshot) const;

  std::vector<state::Record> pending_;  // records of an incomplete moment
  bool whole_ = false;
  state::Moment moment_;
  std::uint64_t counted_until_ns_ = 0, last_end_ns_ = 0;
  std::map<std::uint32_t, Callstack> callstacks_;
  std::map<std::uint32_t, StoredClass> classes_;
  std::array<HistoryView::Tier, kHistoryTiers> tiers_;
  std::vector<PeakLive::Class> first_peak_;
  std::uint64_t first_peak_ns_ = 0;
  StoredValues values_;
  std::shared_ptr<StoredSymbolizer> symbolizer_ =
      std::make_shared<StoredSymbolizer>(ByteBudget::for_target());
};

// Reads the whole moment before any of it counts.
bool StoredRecords::take_windows() {
  auto tiers = tiers_;
  for (const state::Record& record : pending_) {
    for (const state::Window& message : record.windows()) {
      if (message.tier() >= kHistoryTiers) return false;
      HistoryView::Tier& tier = tiers[message.tier()];
      HistoryWindowPtr window = get_window(message);
      if (window == nullptr || (!tier.empty() && tier.back()->end_ns() > window->begin_ns())) {
        return false;
      }
      tier.push_back(std::move(window));
    }
  }
  tiers_ = std::move(tiers);
  if (!tiers_[0].empty()) last_end_ns_ = tiers_[0].back()->end_ns();
  return true;
}

void StoredRecords::add(const state::Record& record) {
  for (const state::Callstack& callstack : record.callstacks()) {
    if (callstack.id() <= kMaxStoredId) callstacks_[callstack.id()] = get_callstack(callstack);
  }
  for (const state::Class& stored : record.classes()) {
    if (stored.id() <= kMaxStoredId) classes_[stored.id()].alloc_class = get_class(stored);
  }
  for (const state::Location& location : record.locations()) {
    symbolizer_->add(get_location(location));
  }
  for (const state::Frame& frame : record.frames()) {
    symbolizer_->add_frame(frame.return_address(), frame.alloc_idx(),
                           {frame.locations().begin(), frame.locations().end()});
  }
  for (const state::Counts& counts : record.counts()) {
    const auto found = classes_.find(counts.class_id());
    if (found != classes_.end()) found->second.counts = get_counts(counts);
  }
  for (const state::Counts& counts : record.peak()) {
    first_peak_.push_back({ClassId(counts.class_id()), get_counts(counts)});
  }
  if (record.complete() && !whole_) first_peak_ns_ = record.moment().peak().time_ns();
  add_exact(record.exact());
  values_.add(record);
}

void StoredRecords::add_exact(const state::ExactWords& exact) {
  const int n = exact.class_ids_size();
  if (exact.allocated_size() != n || exact.promoted_size() != n || exact.died_young_size() != n ||
      exact.died_old_size() != n || exact.lifetimes_ns_size() != n) {
    return;
  }
  for (int i = 0; i < n; ++i) {
    const auto found = classes_.find(exact.class_ids(i));
    if (found == classes_.end()) continue;
    found->second.exact = {exact.allocated(i), exact.promoted(i), exact.died_young(i),
                           exact.died_old(i), exact.lifetimes_ns(i)};
  }
}

std::shared_ptr<ProfileSnapshot> StoredRecords::empty_snapshot() {
  auto snapshot = std::make_shared<ProfileSnapshot>();
  get_moment(moment_, *snapshot);
  snapshot->symbolizer = symbolizer_;
  snapshot->history.tiers = tiers_;
  snapshot->values = values_.view();
  if (!moment_.has_unfinished()) return snapshot;
  HistoryWindowPtr unfinished = get_window(moment_.unfinished());
  if (unfinished != nullptr && unfinished->begin_ns() == last_end_ns_) {
    snapshot->history.tiers[0].push_back(std::move(unfinished));
  }
  return snapshot;
}

void StoredRecords::add_rows(ProfileSnapshot& snapshot) {
  auto kept = std::make_shared<StableVector<Callstack>>();
  std::map<std::uint32_t, const Callstack*> by_id;
  const Callstack* const unknown = &(*kept)[kept->push_back({})];
  for (auto& [id, callstack] : callstacks_) {
    by_id[id] = &(*kept)[kept->push_back(std::move(callstack))];
  }
  for (auto& [id, stored] : classes_) {
    const auto callstack = by_id.find(stored.alloc_class.callstack.value());
    snapshot.rows.push_back({ClassId(id), stored.alloc_class,
                             callstack == by_id.end() ? unknown : callstack->second,
                             std::move(stored.counts)});
  }
  snapshot.callstacks = std::move(kept);
}

// Adds up the windows since the first moment.
void StoredRecords::count(ProfileSnapshot& snapshot) {
  const std::vector<Counters> since =
      RangeCounter(snapshot).flows(counted_until_ns_, snapshot.history.newest_ns());
  auto stored = classes_.begin();
  for (std::size_t i = 0; i < since.size(); ++i, ++stored) {
    Counters& counters = snapshot.rows[i].counters;
    const ExactWords& exact = stored->second.exact;
    counters += since[i];
    counters.allocated.words = exact.allocated;
    counters.promoted.words = exact.promoted;
    counters.deallocated[static_cast<int>(Heap::kMinor)].words = exact.died_young;
    counters.deallocated[static_cast<int>(Heap::kMajor)].words = exact.died_old;
    const auto deaths = counters.deaths.entries();
    std::vector<DeathCounts::Entry> entries(deaths.begin(), deaths.end());
    if (!since[i].deaths.empty()) {
      for (DeathCounts::Entry& entry : entries) entry.words *= 1 + kRounding;
    }
    counters.deaths = DeathCounts::of(std::move(entries), exact.lifetimes_ns);
  }
}

void StoredRecords::add_live(ProfileSnapshot& snapshot) {
  const RangeCounter counter(snapshot);
  for (const state::Part& part : moment_.ages()) {
    std::optional<LiveOfSession> stored = get_live(part);
    if (!stored) continue;
    LiveOfSession& live = snapshot.live.emplace_back(LiveOfSession{stored->rate, {}});
    for (const auto& [id, ages] : stored->ages) {
      const int row = counter.row_of(id);
      if (row < 0) continue;
      const SampleWeight& each = counter.weight(row, live.rate);
      AgeCounts weighed;
      weighed.add_codes(ages.entries(), each.words, counter.squares(row, each.words));
      std::uint64_t samples = 0;
      for (const AgeCounts::Entry& age : ages.entries()) samples += age.n;
      ProfileRow& of_class = snapshot.rows[row];
      of_class.counters.add_live(samples, each, of_class.alloc_class.block_words());
      of_class.counters.ages += weighed;
      live.ages.emplace_back(id, std::move(weighed));
    }
  }
}

// Later peaks are at the end of a remaining window, so the windows contain their counts.
std::shared_ptr<const PeakLive> StoredRecords::peak(const ProfileSnapshot& snapshot) const {
  if (!moment_.has_peak()) return nullptr;
  auto peak = std::make_shared<PeakLive>();
  peak->time_ns = moment_.peak().time_ns();
  peak->live = get_estimate(moment_.peak().live());
  peak->gone_words = moment_.peak().gone_words();
  if (peak->time_ns == first_peak_ns_) {
    peak->classes = first_peak_;
    return peak;
  }
  const RangeCounter counter(snapshot);
  const std::vector<Counters> flows = counter.flows(counter.begin_ns(), peak->time_ns);
  const std::vector<Portion> live = counter.live_at(peak->time_ns);
  for (std::size_t row = 0; row < flows.size(); ++row) {
    if (flows[row].allocated.samples == 0) continue;
    PeakLive::Class& of_class =
        peak->classes.emplace_back(PeakLive::Class{snapshot.rows[row].id, flows[row]});
    of_class.counters.live = live[row].estimate();
    of_class.counters.live_objects =
        of_class.counters.live.words / snapshot.rows[row].alloc_class.block_words();
  }
  return peak;
}

absl::StatusOr<StoredTarget> StoredRecords::finish(const std::string& path) {
  if (!whole_) return absl::DataLossError(absl::StrCat(path, " has nothing whole in it"));
  const std::shared_ptr<ProfileSnapshot> snapshot = empty_snapshot();
  add_rows(*snapshot);
  count(*snapshot);
  add_live(*snapshot);
  snapshot->history.peak = peak(*snapshot);
  snapshot->history.peak_limits = {moment_.peak().lower_bytes(), moment_.peak().upper_bytes()};
  return StoredTarget{snapshot, moment_.boot_id()};
}

}  // namespace

absl::StatusOr<StoredTarget> read_target(const std::string& path) {
  StoredRecords records;
  RETURN_IF_ERROR(
      read_records(path, [&](std::string_view record) { return records.take(record); }));
  return records.finish(path);
}

}  // namespace memprofd
