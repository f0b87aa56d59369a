// SPDX-License-Identifier: Apache-2.0
// The aggregator beside a plain one, which keeps a map of blocks and adds doubles at each event.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "daemon/aggregate/aggregator.h"
#include "tests/kit/ring_events.h"

namespace memprofd {
namespace {

constexpr std::uint32_t kFollowed = MEMPROF_FOLLOWED_SESSIONS;

// Samples, and the words that they stand for.
struct Sum {
  std::uint64_t samples = 0;
  double words = 0;

  void add(std::uint64_t n, double each) {
    samples += n;
    words += static_cast<double>(n) * each;
  }
};

struct ModelCounts {
  Sum allocated, promoted, live, forgotten;
  std::array<Sum, kHeaps> died;
  double life_ns = 0;  // weighed by words
};

class Model {
 public:
  struct Block {
    ClassId id;
    std::uint64_t n;  // as counted
    double each;      // words
    std::uint64_t born;
    std::uint32_t generation;
    bool may_be_promoted;
  };

  void alloc(std::uint64_t number, const Block& block) {
    blocks[number] = block;
    counts[block.id].allocated.add(block.n, block.each);
    counts[block.id].live.add(block.n, block.each);
  }
  void promote(std::uint64_t number) {
    const auto at = blocks.find(number);
    if (at == blocks.end() || !at->second.may_be_promoted) return;
    at->second.may_be_promoted = false;
    counts[at->second.id].promoted.add(at->second.n, at->second.each);
  }
  void die(std::uint64_t number, Heap heap, std::uint64_t now) {
    const auto at = blocks.find(number);
    if (at == blocks.end()) return;
    ModelCounts& of = counts[at->second.id];
    end(at->second, of.died[static_cast<int>(heap)]);
    of.life_ns += static_cast<double>(now - at->second.born) * static_cast<double>(at->second.n) *
                  at->second.each;
    blocks.erase(at);
  }
  template <typename Fn>
  void forget(Fn is_gone) {
    blocks_forgotten += std::erase_if(blocks, [&](const auto& one) {
      if (is_gone(one.second)) end(one.second, counts[one.second.id].forgotten);
      return is_gone(one.second);
    });
  }

  std::map<std::uint64_t, Block> blocks;
  std::map<ClassId, ModelCounts> counts;
  std::uint64_t blocks_forgotten = 0;

 private:
  void end(const Block& block, Sum& how) {
    how.add(block.n, block.each);
    counts[block.id].live.samples -= block.n;
    counts[block.id].live.words -= static_cast<double>(block.n) * block.each;
  }
};

class AggregatorModel : public ::testing::TestWithParam<unsigned> {
 protected:
  AggregatorModel() { aggregator_.begin_session(rate_, generation_, false); }

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::uint64_t some_block() { return 1 + below(next_); }  // or one that has not come yet

  void alloc() {
    const bool major = below(4) == 0;
    memprof_record record =
        sample_record(now_, next_, major ? MEMPROF_ALLOC_MAJOR : MEMPROF_ALLOC_MINOR,
                      static_cast<std::uint32_t>(1 + below(3)), 7 + static_cast<int>(below(2)));
    record.size_words = 1 + below(40);
    if (below(50) == 0) record.size_words = 1 + below(std::uint64_t{1} << 40);
    if (below(100) == 0) record.n_samples = 60'000 + static_cast<std::uint32_t>(below(20'000));
    if (below(1000) == 0)
      record.n_samples = ~std::uint32_t{0} - static_cast<std::uint32_t>(below(9));
    const SampleEvent event =
        aggregator_.alloc(record, CallstackId(1 + static_cast<std::uint32_t>(below(5))));
    const AllocClass& of = aggregator_.classes().get(event.alloc_class);
    model_.alloc(next_, {event.alloc_class, of.counted(record.n_samples), of.weight(rate_).words,
                         now_, generation_, !major});
    ++next_;
  }
  void promote() {
    const std::uint64_t number = some_block();
    const SampleEvent event = aggregator_.promote(sample_record(now_, number, MEMPROF_PROMOTE));
    const auto at = model_.blocks.find(number);
    const bool known = at != model_.blocks.end() && at->second.may_be_promoted;
    EXPECT_EQ(event.alloc_class, known ? at->second.id : ClassId()) << number;
    model_.promote(number);
  }
  void die() {
    const std::uint64_t number = some_block();
    const auto at = model_.blocks.find(number);
    const bool young = at != model_.blocks.end() && at->second.may_be_promoted;
    const SampleEvent event = aggregator_.dealloc(
        sample_record(now_, number, young ? MEMPROF_DEALLOC_MINOR : MEMPROF_DEALLOC_MAJOR));
    EXPECT_EQ(event.alloc_class, at != model_.blocks.end() ? at->second.id : ClassId()) << number;
    EXPECT_EQ(event.alloc_time_ns, at != model_.blocks.end() ? at->second.born : 0) << number;
    model_.die(number, young ? Heap::kMinor : Heap::kMajor, now_);
  }
  void change_session() {
    const bool follow = below(3) != 0;
    generation_ += 1 + static_cast<std::uint32_t>(below(5) == 0 ? below(2 * kFollowed) : 0);
    rate_ = std::pow(10, -static_cast<double>(1 + below(5)));
    aggregator_.begin_session(rate_, generation_, follow);
    model_.forget([&](const Model::Block& block) {
      return !follow || block.generation + kFollowed <= generation_;
    });
  }
  void forget_some() {
    const std::uint32_t oldest = generation_ - static_cast<std::uint32_t>(below(3));
    if (below(2) == 0) {
      aggregator_.start_over();
      model_.forget([](const Model::Block&) { return true; });
    } else {
      aggregator_.forget_before(oldest);
      model_.forget([&](const Model::Block& block) { return block.generation < oldest; });
    }
  }
  void close_interval() {
    aggregator_.close_interval([&](const Interval& interval, double) {
      for (const IntervalCell& cell : interval.cells()) {
        IntervalCell& sum = intervals_[cell.alloc_class];
        sum.allocated += cell.allocated;
        sum.promoted += cell.promoted;
        sum.never_followed += cell.never_followed;
        sum.forgotten += cell.forgotten;
        for (const DeathCounts::Entry& death : cell.deaths.entries())
          died_[cell.alloc_class][static_cast<int>(death.heap())] += death.n;
        for (const AgeCounts::Entry& age : cell.ages.entries()) aged_[cell.alloc_class] += age.n;
      }
    });
  }

  static void expect_same(const Estimate& found, const Sum& expected, const char* what) {
    EXPECT_EQ(found.samples, expected.samples) << what;
    EXPECT_NEAR(found.words, expected.words, 1e-6 * (1 + expected.words)) << what;
  }
  void compare_class(ClassId id, const ModelCounts& expected) const {
    SCOPED_TRACE("class " + std::to_string(id.value()));
    const Counters& found = aggregator_.by_class()[id.value()];
    const double block_words = aggregator_.classes().get(id).block_words();
    expect_same(found.allocated, expected.allocated, "allocated");
    expect_same(found.promoted, expected.promoted, "promoted");
    EXPECT_EQ(found.live.samples, expected.live.samples);
    EXPECT_NEAR(found.live.words, expected.live.words, 1e-6 * (1 + expected.allocated.words));
    EXPECT_NEAR(found.allocated_objects, expected.allocated.words / block_words,
                1e-6 * (1 + found.allocated_objects));
    EXPECT_NEAR(found.live_objects, expected.live.words / block_words,
                1e-6 * (1 + found.allocated_objects));
    std::uint64_t gone = expected.forgotten.samples;
    for (int heap = 0; heap < kHeaps; ++heap) {
      expect_same(found.deallocated[heap], expected.died[heap], "died");
      gone += expected.died[heap].samples;
    }
    EXPECT_EQ(found.deaths.histogram().total(), gone - expected.forgotten.samples);
    EXPECT_NEAR(found.deaths.sum_ns(), expected.life_ns, 1e-6 * (1 + expected.life_ns));
    EXPECT_EQ(found.forgotten.histogram().total(), expected.forgotten.samples);
    EXPECT_EQ(found.allocated.samples, found.live.samples + gone);
  }
  // Counts that history windows have received, plus pending ones.
  void compare_interval(ClassId id, const ModelCounts& expected) const {
    SCOPED_TRACE("intervals of class " + std::to_string(id.value()));
    const auto at = intervals_.find(id);
    ASSERT_NE(at, intervals_.end());
    EXPECT_EQ(at->second.allocated, expected.allocated.samples);
    EXPECT_EQ(at->second.promoted, expected.promoted.samples);
    EXPECT_EQ(at->second.forgotten, expected.forgotten.samples);
    EXPECT_EQ(aged_.contains(id) ? aged_.at(id) : 0, expected.forgotten.samples);
    EXPECT_EQ(at->second.never_followed, 0u);
    const auto died = died_.find(id);
    for (int heap = 0; heap < kHeaps; ++heap)
      EXPECT_EQ(died == died_.end() ? 0 : died->second[heap], expected.died[heap].samples);
  }
  void compare_totals() const {
    Sum allocated, live;
    std::array<Sum, kHeaps> died;
    for (const auto& [id, of] : model_.counts) {
      allocated.add(1, of.allocated.words);
      live.add(of.live.samples, 0);
      live.words += of.live.words;
      for (int heap = 0; heap < kHeaps; ++heap) died[heap].words += of.died[heap].words;
    }
    const TargetCounters& totals = aggregator_.totals();
    EXPECT_NEAR(totals.all_allocated().words, allocated.words, 1e-6 * (1 + allocated.words));
    EXPECT_EQ(totals.live.samples, live.samples);
    EXPECT_NEAR(totals.live.words, live.words, 1e-6 * (1 + allocated.words));
    for (int heap = 0; heap < kHeaps; ++heap)
      EXPECT_NEAR(totals.deallocated[heap].words, died[heap].words, 1e-6 * (1 + allocated.words));
    EXPECT_EQ(aggregator_.live().size(), model_.blocks.size());
    EXPECT_EQ(drops_.get(Drop::kFollowSessionEnd), model_.blocks_forgotten);
  }
  void compare() {
    for (const auto& [id, expected] : model_.counts) compare_class(id, expected);
    compare_totals();
  }

  std::mt19937_64 random_{GetParam()};
  std::uint64_t now_ = 1'000, next_ = 1;
  std::uint32_t generation_ = 1;
  double rate_ = 0.01;
  DropCounters drops_;
  Aggregator aggregator_{{}, drops_};
  Model model_;
  std::map<ClassId, IntervalCell> intervals_;
  std::map<ClassId, std::array<std::uint64_t, kHeaps>> died_;
  std::map<ClassId, std::uint64_t> aged_;  // of those forgotten
};

TEST_P(AggregatorModel, CountsTheSame) {
  for (int event = 0; event < 10'000 && !HasFailure(); ++event) {
    now_ += below(100) == 0 ? below(1'000'000'000) : below(1'000);
    const std::uint64_t what = below(10'000);
    if (what < 5'000) {
      alloc();
    } else if (what < 6'500) {
      promote();
    } else if (what < 9'950) {
      die();
    } else if (what < 9'970) {
      close_interval();
    } else if (what < 9'985) {
      change_session();
    } else if (what < 9'988) {
      forget_some();
    } else {
      compare();
    }
  }
  compare();
  close_interval();
  for (const auto& [id, expected] : model_.counts) compare_interval(id, expected);
  EXPECT_EQ(drops_.get(Drop::kFollowLiveSetFull), 0u);
  EXPECT_EQ(drops_.get(Drop::kDecodeBadRecord), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, AggregatorModel, ::testing::Range(1u, 5u));

}  // namespace
}  // namespace memprofd
