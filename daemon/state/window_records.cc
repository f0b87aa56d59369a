// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/window_records.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace memprofd {
namespace {

// Far above any count in a window, and far below values whose sums overflow.
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 48;

using Entries = std::span<const DeathCounts::Entry>;

// Adds cells to the columns of a part.
class PartWriter {
 public:
  explicit PartWriter(double rate, state::Part& out) : out_(out) { out_.set_rate(rate); }

  void add(ClassId id, const WindowCell& cell) {
    out_.add_passed(id.value() - next_class_);
    next_class_ = id.value() + 1;
    out_.add_allocated(cell.allocated);
    out_.add_promoted(cell.promoted);
    out_.add_never_followed(cell.never_followed);
    out_.add_deaths(static_cast<std::uint32_t>(cell.deaths.size()));
    for (const DeathCounts::Entry& death : cell.deaths) {
      out_.add_death_codes(death.code);
      out_.add_death_samples(death.n);
    }
    out_.add_ages(static_cast<std::uint32_t>(cell.ages.size()));
    for (const DeathCounts::Entry& age : cell.ages) {
      out_.add_age_codes(age.code);
      out_.add_age_samples(age.n);
    }
  }
  ~PartWriter() {
    drop_zeros(*out_.mutable_allocated());
    drop_zeros(*out_.mutable_promoted());
    drop_zeros(*out_.mutable_never_followed());
    drop_zeros(*out_.mutable_deaths());
    drop_zeros(*out_.mutable_ages());
  }

 private:
  template <typename Column>
  static void drop_zeros(Column& column) {
    if (std::all_of(column.begin(), column.end(), [](auto n) { return n == 0; })) column.Clear();
  }

  state::Part& out_;
  std::uint32_t next_class_ = 0;
};

// Reads the next cell's part of two columns.
class EntryReader {
 public:
  template <typename Codes, typename Samples>
  EntryReader(const Codes& codes, const Samples& samples) {
    sound_ = codes.size() == samples.size();
    for (int i = 0; sound_ && i < codes.size(); ++i) {
      const std::uint32_t code = codes[i];
      sound_ = code < 256 && (code & 0x7f) < LifetimeHistogram::kBuckets && samples[i] > 0 &&
               samples[i] <= kMaxCount;
      DeathCounts::Entry entry;
      entry.code = static_cast<std::uint8_t>(code);
      entry.n = samples[i] & ((std::uint64_t{1} << 56) - 1);
      entries_.push_back(entry);
    }
  }

  bool sound() const { return sound_; }
  bool at_end() const { return next_ == entries_.size(); }
  // Valid as long as this object; codes are ascending. nullopt: there are too few, or they are not
  // ascending.
  std::optional<Entries> take(std::size_t n) {
    if (n > entries_.size() - next_) return std::nullopt;
    const Entries taken(entries_.data() + next_, n);
    next_ += n;
    for (std::size_t i = 1; i < n; ++i) {
      if (taken[i].code <= taken[i - 1].code) return std::nullopt;
    }
    return taken;
  }
  std::uint8_t longest(Heap heap) const {
    int longest = 0;
    for (const DeathCounts::Entry& entry : entries_) {
      if (entry.heap() == heap) longest = std::max(longest, entry.bucket());
    }
    return static_cast<std::uint8_t>(longest);
  }

 private:
  bool sound_ = false;
  std::vector<DeathCounts::Entry> entries_;
  std::size_t next_ = 0;
};

template <typename Column>
bool fits(const Column& column, int cells) {
  return column.empty() ||
         (column.size() == cells && std::all_of(column.begin(), column.end(),
                                                [](std::uint64_t n) { return n <= kMaxCount; }));
}
template <typename Column>
std::uint64_t at(const Column& column, int cell) {
  return column.empty() ? 0 : column[cell];
}

// Calls use(cell) for each; returns false if the message is invalid.
template <typename Begin, typename Use>
bool read_part(const state::Part& part, Begin begin, Use use) {
  const int cells = part.passed_size();
  EntryReader deaths(part.death_codes(), part.death_samples());
  EntryReader ages(part.age_codes(), part.age_samples());
  if (!std::isfinite(part.rate()) || part.rate() <= 0 || !deaths.sound() || !ages.sound() ||
      !fits(part.allocated(), cells) || !fits(part.promoted(), cells) ||
      !fits(part.never_followed(), cells) || !fits(part.deaths(), cells) ||
      !fits(part.ages(), cells)) {
    return false;
  }
  begin(LongestBuckets{deaths.longest(Heap::kMinor), deaths.longest(Heap::kMajor)},
        ages.longest(Heap::kMinor));
  std::uint64_t id = 0;
  for (int i = 0; i < cells; ++i, ++id) {
    id += part.passed(i);
    const auto of_cell = deaths.take(at(part.deaths(), i));
    const auto aged = ages.take(at(part.ages(), i));
    if (id > kMaxStoredId || !of_cell || !aged) return false;
    use(WindowCell{.alloc_class = ClassId(static_cast<std::uint32_t>(id)),
                   .allocated = at(part.allocated(), i),
                   .promoted = at(part.promoted(), i),
                   .never_followed = at(part.never_followed(), i),
                   .deaths = *of_cell,
                   .ages = *aged});
  }
  return deaths.at_end() && ages.at_end();
}

// Moments of earlier versions of memprofd lack this data.
void put_memory(const MemoryParts& memory, state::Window& out) {
  if (memory == MemoryParts()) return;
  state::Memory& message = *out.mutable_memory();
  message.set_heap_used(memory.heap_used);
  message.set_heap_free(memory.heap_free);
  message.set_minor_heaps(memory.minor_heaps);
  message.set_other_anonymous(memory.other_anonymous);
  message.set_files(memory.files);
  message.set_shared(memory.shared);
  message.set_swapped(memory.swapped);
}

MemoryParts get_memory(const state::Memory& message) {
  return {.heap_used = message.heap_used(),
          .heap_free = message.heap_free(),
          .minor_heaps = message.minor_heaps(),
          .other_anonymous = message.other_anonymous(),
          .files = message.files(),
          .shared = message.shared(),
          .swapped = message.swapped()};
}

}  // namespace

void put_estimate(const Estimate& estimate, state::Estimate& out) {
  out.set_samples(estimate.samples);
  out.set_words(estimate.words);
  out.set_variance(estimate.variance_words2);
  out.set_skew(estimate.skew_words3);
}

Estimate get_estimate(const state::Estimate& message) {
  return {message.samples(), message.words(), message.variance(), message.skew()};
}

void put_window(const HistoryWindow& window, int tier, state::Window& out) {
  out.set_tier(static_cast<std::uint32_t>(tier));
  out.set_begin_ns(window.begin_ns());
  out.set_end_ns(window.end_ns());
  const HistoryPoint& point = window.at_end();
  put_estimate(point.live, *out.mutable_live());
  out.set_heap_words(point.heap_words);
  out.set_minor_collections(point.minor_collections);
  out.set_major_collections(point.major_collections);
  out.set_compactions(point.compactions);
  out.set_dropped_events(point.dropped_events);
  out.set_session(point.session);
  put_memory(point.memory, out);
  for (std::size_t part = 0; part < window.parts(); ++part) {
    PartWriter writer(window.rate(part), *out.add_parts());
    WindowPartReader reader = window.read(part, kAllDeaths);
    while (const WindowCell* cell = reader.next()) writer.add(cell->alloc_class, *cell);
  }
}

HistoryWindowPtr get_window(const state::Window& message) {
  if (message.begin_ns() >= message.end_ns()) return nullptr;
  auto window =
      std::make_shared<HistoryWindow>(message.begin_ns(), message.end_ns(),
                                      HistoryPoint{.live = get_estimate(message.live()),
                                                   .heap_words = message.heap_words(),
                                                   .minor_collections = message.minor_collections(),
                                                   .major_collections = message.major_collections(),
                                                   .compactions = message.compactions(),
                                                   .dropped_events = message.dropped_events(),
                                                   .session = message.session(),
                                                   .memory = get_memory(message.memory())});
  for (const state::Part& part : message.parts()) {
    const bool sound = read_part(
        part,
        [&](const LongestBuckets& longest, std::uint8_t oldest) {
          window->begin_part(part.rate(), longest, oldest);
        },
        [&](const WindowCell& cell) { window->add_cell(cell); });
    if (!sound) return nullptr;
  }
  window->finish();
  return window;
}

void put_live(const LiveOfSession& live, state::Part& out) {
  PartWriter writer(live.rate, out);
  for (const auto& [id, ages] : live.ages) writer.add(id, {.ages = ages.entries()});
}

std::optional<LiveOfSession> get_live(const state::Part& message) {
  LiveOfSession live{message.rate(), {}};
  const bool sound = read_part(
      message, [](const LongestBuckets&, std::uint8_t) {},
      [&](const WindowCell& cell) {
        live.ages.emplace_back(cell.alloc_class,
                               AgeCounts::of({cell.ages.begin(), cell.ages.end()}, 0));
      });
  return sound ? std::optional(std::move(live)) : std::nullopt;
}

}  // namespace memprofd
