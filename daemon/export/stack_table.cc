#include "daemon/export/stack_table.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

// In the place of a frame of which all is hidden.
constexpr std::uint32_t kNoFrame = std::numeric_limits<std::uint32_t>::max();

struct LocationHash {
  std::size_t operator()(const Location& l) const {
    return absl::HashOf(l.function, l.file, l.line, l.start_column, l.end_column, l.module);
  }
};

// Stacks by content without a second copy: the set holds indexes.
struct StackContentHash {
  const std::vector<StackTable::Stack>* stacks;
  std::size_t operator()(std::uint32_t i) const { return absl::HashOf((*stacks)[i]); }
};
struct StackEqual {
  const std::vector<StackTable::Stack>* stacks;
  bool operator()(std::uint32_t a, std::uint32_t b) const { return (*stacks)[a] == (*stacks)[b]; }
};

std::uint32_t clamp_times(std::uint64_t times) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(times, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

// Fills a table, target by target.
class StackTableBuilder {
 public:
  StackTableBuilder(StackTable& table, const StackLimits& limits)
      : table_(table),
        limits_(limits),
        stacks_(0, StackContentHash{&table.stacks_}, StackEqual{&table.stacks_}) {}

  void add(const TargetProfile& profile) {
    profile_ = &profile;
    target_ = static_cast<std::uint32_t>(table_.rows_.size());
    frames_.clear();
    by_callstack_.clear();
    std::vector<std::uint32_t>& rows = table_.rows_.emplace_back();
    rows.reserve(profile.rows.size());
    for (const ProfileRow& row : profile.rows) {
      const auto [it, is_new] = by_callstack_.try_emplace(row.callstack.get(), 0);
      if (is_new) it->second = stack_of(*row.callstack);
      rows.push_back(it->second);
    }
  }

 private:
  std::uint32_t stack_of(const Callstack& callstack) {
    StackTable::Stack stack;
    bool is_known = false;
    callstack.for_each_frame(
        [&](std::uint64_t address, std::int32_t alloc_idx, std::uint64_t times) {
          is_known = true;
          const std::uint32_t frame = frame_of(address, alloc_idx);
          if (frame != kNoFrame) stack.push_back({frame, clamp_times(times)});
        });
    if (stack.empty()) stack.push_back({named_frame(is_known ? "(hidden)" : "(unknown)"), 1});
    table_.shorten(stack, limits_.of_a_stack);
    const auto id = static_cast<std::uint32_t>(table_.stacks_.size());
    table_.stacks_.push_back(std::move(stack));
    const auto [it, is_new] = stacks_.insert(id);
    if (!is_new) table_.stacks_.pop_back();
    return *it;
  }

  std::uint32_t frame_of(std::uint64_t address, std::int32_t alloc_idx) {
    const auto [it, is_new] = frames_.try_emplace(std::pair(address, alloc_idx), kNoFrame);
    if (!is_new) return it->second;
    StackTable::Frame frame{target_, address, {}};
    for (const Location& location : profile_->symbolizer->locations(address, alloc_idx)) {
      if (profile_->hidden != nullptr && profile_->hidden->matches(location)) continue;
      frame.locations.push_back(location_of(location));
    }
    if (frame.locations.empty()) return kNoFrame;
    it->second = static_cast<std::uint32_t>(table_.frames_.size());
    table_.frames_.push_back(std::move(frame));
    return it->second;
  }

  // Address 0 is no return address.
  std::uint32_t named_frame(const char* name) {
    const std::uint32_t location = location_of({.function = name});
    const auto [it, is_new] = named_.try_emplace(std::pair(target_, location), kNoFrame);
    if (is_new) {
      it->second = static_cast<std::uint32_t>(table_.frames_.size());
      table_.frames_.push_back({target_, 0, {location}});
    }
    return it->second;
  }

  std::uint32_t location_of(Location location) {
    location.function = valid_utf8(location.function);
    location.file = valid_utf8(location.file);
    location.module = valid_utf8(location.module);
    const auto id = static_cast<std::uint32_t>(table_.locations_.size());
    const auto [it, is_new] = locations_.try_emplace(location, id);
    if (is_new) table_.locations_.push_back(std::move(location));
    return it->second;
  }

  StackTable& table_;
  const StackLimits limits_;
  const TargetProfile* profile_ = nullptr;
  std::uint32_t target_ = 0;
  absl::flat_hash_map<Location, std::uint32_t, LocationHash> locations_;
  absl::flat_hash_map<std::pair<std::uint64_t, std::int32_t>, std::uint32_t> frames_;
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> named_;
  absl::flat_hash_map<const Callstack*, std::uint32_t> by_callstack_;
  absl::flat_hash_set<std::uint32_t, StackContentHash, StackEqual> stacks_;
};

StackTable::StackTable(const std::vector<TargetProfile>& profiles, const StackLimits& limits) {
  StackTableBuilder builder(*this, limits);
  for (const TargetProfile& profile : profiles) builder.add(profile);
  shorten_all(limits.in_all);
}

// Locations of the stack with at most so many repeats of each run.
std::size_t StackTable::length(const Stack& stack, std::uint32_t repeats) const {
  std::size_t sum = 0;
  for (const Run& run : stack) {
    sum += frames_[run.frame].locations.size() * std::min(run.times, repeats);
  }
  return sum;
}

void StackTable::shorten(Stack& stack, std::size_t limit) const {
  std::uint32_t repeats = clamp_times(limit);
  while (repeats > 1 && length(stack, repeats) > limit) repeats /= 2;
  for (Run& run : stack) run.times = std::min(run.times, std::max(repeats, 1u));
  std::size_t sum = 0;
  const auto end = std::find_if(stack.begin(), stack.end(), [&](const Run& run) {
    sum += frames_[run.frame].locations.size() * run.times;
    return sum > limit;
  });
  // The site stays, whatever the limit.
  stack.erase(std::max(end, stack.begin() + 1), stack.end());
}

void StackTable::shorten_all(std::size_t limit) {
  std::uint32_t repeats = 1;
  for (const Stack& stack : stacks_) {
    for (const Run& run : stack) repeats = std::max(repeats, run.times);
  }
  const auto all = [&] {
    return std::transform_reduce(stacks_.begin(), stacks_.end(), std::size_t{0}, std::plus<>(),
                                 [&](const Stack& stack) { return length(stack, repeats); });
  };
  while (repeats > 1 && all() > limit) repeats /= 2;
  for (Stack& stack : stacks_) {
    for (Run& run : stack) run.times = std::min(run.times, repeats);
  }
}

std::vector<std::uint32_t> StackTable::from_root(std::uint32_t stack) const {
  std::vector<std::uint32_t> result;
  for (auto run = stacks_[stack].rbegin(); run != stacks_[stack].rend(); ++run) {
    const std::vector<std::uint32_t>& frame = frames_[run->frame].locations;
    for (std::uint32_t i = 0; i < run->times; ++i) {
      result.insert(result.end(), frame.rbegin(), frame.rend());
    }
  }
  return result;
}

std::vector<Counters> counters_by_stack(const std::vector<TargetProfile>& profiles,
                                        const StackTable& table) {
  std::vector<Counters> result(table.stacks().size());
  for (std::size_t target = 0; target < profiles.size(); ++target) {
    for (std::size_t row = 0; row < profiles[target].rows.size(); ++row) {
      result[table.stack_of(target, row)] += profiles[target].rows[row].counters;
    }
  }
  return result;
}

std::string target_title(const TargetProfile& profile) {
  return absl::StrCat(printable(profile.comm), " (pid ", profile.pid, ")");
}

}  // namespace memprofd
