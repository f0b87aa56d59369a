// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/stack_table.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "daemon/query/visible_frames.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

// Stands for a frame that is hidden completely.
constexpr std::uint32_t kNoFrame = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kNotSeen = kNoFrame - 1;

struct ByContent {
  std::size_t operator()(const Location* location) const { return absl::HashOf(*location); }
  bool operator()(const Location* a, const Location* b) const { return *a == *b; }
};

// Finds stacks by content without a second copy: the set holds indexes.
struct StackContentHash {
  const std::vector<StackTable::Stack>* stacks;
  std::size_t operator()(std::uint32_t i) const { return absl::HashOf((*stacks)[i]); }
};
struct StackEqual {
  const std::vector<StackTable::Stack>* stacks;
  bool operator()(std::uint32_t a, std::uint32_t b) const { return (*stacks)[a] == (*stacks)[b]; }
};

}  // namespace

// Fills a table, one target after the other.
class StackTableBuilder {
 public:
  StackTableBuilder(StackTable& table, const StackLimits& limits, bool several)
      : table_(table),
        limits_(limits),
        several_(several),
        stacks_(0, StackContentHash{&table.stacks_}, StackEqual{&table.stacks_}) {}

  void add(const TargetProfile& profile) {
    profile_ = &profile;
    visible_.emplace(profile);
    target_ = static_cast<std::uint32_t>(table_.rows_.size());
    frames_.clear();
    by_location_.clear();
    by_callstack_.clear();
    std::vector<std::uint32_t>& rows = table_.rows_.emplace_back();
    rows.reserve(profile.rows.size());
    by_callstack_.reserve(profile.rows.size());
    stacks_.reserve(table_.stacks_.size() + profile.rows.size());
    for (const ProfileRow& row : profile.rows) {
      const auto [it, is_new] = by_callstack_.try_emplace(row.callstack, 0);
      if (is_new) it->second = stack_of(*row.callstack);
      rows.push_back(it->second);
    }
  }

 private:
  std::uint32_t stack_of(const Callstack& callstack) {
    StackTable::Stack stack;
    const auto runs = profile_->symbolizer->frames(callstack, scratch_);
    for (const Symbolizer::FrameRun& run : runs) {
      const std::uint32_t frame = frame_of(run.frame);
      if (frame != kNoFrame) stack.push_back({frame, run.times});
    }
    if (stack.empty()) {
      stack.push_back({named_frame(runs.empty() ? Symbolizer::kUnknown : Symbolizer::kHidden), 1});
    }
    table_.shorten(stack, limits_.of_a_stack);
    const auto id = static_cast<std::uint32_t>(table_.stacks_.size());
    table_.stacks_.push_back(std::move(stack));
    const auto [it, is_new] = stacks_.insert(id);
    if (!is_new) table_.stacks_.pop_back();
    return *it;
  }

  std::uint32_t frame_of(FrameId id) {
    if (id.value() >= frames_.size()) frames_.resize(id.value() + 1, kNotSeen);
    std::uint32_t& known = frames_[id.value()];
    if (known == kNotSeen) known = add_frame(id);
    return known;
  }

  std::uint32_t add_frame(FrameId id) {
    StackTable::Frame frame{target_, profile_->symbolizer->return_address(id), {}};
    for (const LocationId location : visible_->locations(id)) {
      frame.locations.push_back(location_of(location));
    }
    if (frame.locations.empty()) return kNoFrame;
    table_.frames_.push_back(std::move(frame));
    return static_cast<std::uint32_t>(table_.frames_.size() - 1);
  }

  // Address 0 is not a return address.
  std::uint32_t named_frame(LocationId name) {
    const std::uint32_t location = location_of(name);
    const auto [it, is_new] = named_.try_emplace(std::pair(target_, location), kNoFrame);
    if (is_new) {
      it->second = static_cast<std::uint32_t>(table_.frames_.size());
      table_.frames_.push_back({target_, 0, {location}});
    }
    return it->second;
  }

  std::uint32_t location_of(LocationId id) {
    if (id.value() >= by_location_.size()) by_location_.resize(id.value() + 1);
    std::uint32_t& known = by_location_[id.value()];
    if (known == 0) known = add_location(&visible_->location(id)) + 1;
    return known - 1;
  }

  // Locations of one target differ from each other, so only those of several targets have to be
  // compared.
  std::uint32_t add_location(const Location* location) {
    const auto next = static_cast<std::uint32_t>(table_.locations_.size());
    if (several_) {
      const auto [it, is_new] = locations_.try_emplace(location, next);
      if (!is_new) return it->second;
    }
    table_.locations_.push_back(location);
    return next;
  }

  StackTable& table_;
  const StackLimits limits_;
  const bool several_;  // targets
  absl::flat_hash_map<const Location*, std::uint32_t, ByContent, ByContent> locations_;
  // The members below belong to the current target.
  const TargetProfile* profile_ = nullptr;
  std::optional<VisibleFrames> visible_;
  std::uint32_t target_ = 0;
  std::vector<std::uint32_t> by_location_;  // by LocationId: index + 1; 0: not seen yet
  std::vector<std::uint32_t> frames_;       // by FrameId
  std::vector<Symbolizer::FrameRun> scratch_;
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> named_;
  absl::flat_hash_map<const Callstack*, std::uint32_t> by_callstack_;
  absl::flat_hash_set<std::uint32_t, StackContentHash, StackEqual> stacks_;
};

StackTable::StackTable(const std::vector<TargetProfile>& profiles, const StackLimits& limits) {
  StackTableBuilder builder(*this, limits, profiles.size() > 1);
  for (const TargetProfile& profile : profiles) builder.add(profile);
  shorten_all(limits.in_all);
}

// The number of locations of the stack with at most this number of repeats of each run.
std::size_t StackTable::length(const Stack& stack, std::uint32_t repeats) const {
  std::size_t sum = 0;
  for (const Run& run : stack) {
    sum += frames_[run.frame].locations.size() * std::min(run.times, repeats);
  }
  return sum;
}

void StackTable::shorten(Stack& stack, std::size_t limit) const {
  auto repeats = static_cast<std::uint32_t>(
      std::min<std::size_t>(limit, std::numeric_limits<std::uint32_t>::max()));
  while (repeats > 1 && length(stack, repeats) > limit) repeats /= 2;
  for (Run& run : stack) run.times = std::min(run.times, std::max(repeats, 1u));
  std::size_t sum = 0;
  const auto end = std::find_if(stack.begin(), stack.end(), [&](const Run& run) {
    sum += frames_[run.frame].locations.size() * run.times;
    return sum > limit;
  });
  // Keeps the allocation site, whatever the limit is.
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
