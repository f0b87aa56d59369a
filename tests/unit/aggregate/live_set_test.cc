// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/live_set.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "agent-lib/include/memprof_agent_abi.h"

namespace memprofd {
namespace {

LiveSample sample(std::uint32_t id, Heap heap = Heap::kMinor) {
  return {1000 + id, 3, ClassId(id), heap};
}

TEST(LiveSetTest, InsertFindTake) {
  LiveSet live(10);
  EXPECT_EQ(live.insert(SampleId(5), sample(7)), LiveSet::Inserted::kYes);
  const auto found = live.promote(SampleId(5));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->heap(), Heap::kMinor);
  EXPECT_FALSE(live.promote(SampleId(5)).has_value()) << "again";
  EXPECT_FALSE(live.promote(SampleId(6)).has_value());
  EXPECT_EQ(live.find(SampleId(5))->heap(), Heap::kMajor);
  const auto taken = live.take(SampleId(5));
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->heap(), Heap::kMajor);
  EXPECT_EQ(taken->alloc_class(), ClassId(7));
  EXPECT_EQ(taken->alloc_time_ns(), 1007u);
  EXPECT_EQ(taken->n_samples(), 3u);
  EXPECT_FALSE(live.find(SampleId(5)).has_value());
  EXPECT_FALSE(live.take(SampleId(5)).has_value());
  EXPECT_EQ(live.size(), 0u);
}

TEST(LiveSetTest, SecondInsertOfAnIdChangesNothing) {
  LiveSet live(10);
  live.insert(SampleId(1), sample(1));
  EXPECT_EQ(live.insert(SampleId(1), sample(2)), LiveSet::Inserted::kAlreadyThere);
  EXPECT_EQ(live.find(SampleId(1))->alloc_class(), ClassId(1));
}

TEST(LiveSetTest, TakesNoMoreThanItsMemory) {
  const auto memory = std::make_shared<ByteBudget>(100'000);
  LiveSet live(1'000'000, memory);
  std::uint32_t id = 0;
  while (live.insert(SampleId(id), sample(id)) == LiveSet::Inserted::kYes) ++id;
  EXPECT_GT(id, 1000u);
  EXPECT_LE(live.memory_bytes(), 100'000u);
  EXPECT_EQ(memory->used(), live.memory_bytes());
  EXPECT_EQ(memory->refused(), 1u);
  EXPECT_EQ(live.insert(SampleId(id), sample(id)), LiveSet::Inserted::kFull);
  EXPECT_EQ(live.insert(SampleId(3), sample(3)), LiveSet::Inserted::kAlreadyThere);
  live.take(SampleId(3));
  EXPECT_EQ(live.insert(SampleId(id), sample(id)), LiveSet::Inserted::kYes) << "one has gone";
  memory->set_limit(1'000'000);
  EXPECT_EQ(live.insert(SampleId(id + 1), sample(id)), LiveSet::Inserted::kYes);
  live.clear();
  EXPECT_EQ(memory->used(), 0u);
}

TEST(LiveSetTest, ChargesWhatItTakesWhenBlocksComeAndGo) {
  const auto memory = std::make_shared<ByteBudget>(kNoLimit);
  LiveSet live(10'000, memory);
  for (std::uint32_t id = 0; id < 40'000; ++id) {
    live.insert(SampleId(id), sample(id));
    if (id >= 5000) live.take(SampleId(id - 5000 + id % 7));
    ASSERT_GE(memory->used(), live.memory_bytes());
  }
}

TEST(LiveSetTest, Cap) {
  LiveSet live(2);
  live.insert(SampleId(1), sample(1));
  live.insert(SampleId(2), sample(1, Heap::kMajor));
  EXPECT_EQ(live.insert(SampleId(3), sample(1)), LiveSet::Inserted::kFull);
  EXPECT_EQ(live.insert(SampleId(2), sample(1)), LiveSet::Inserted::kAlreadyThere);
  live.take(SampleId(1));
  EXPECT_EQ(live.insert(SampleId(3), sample(1)), LiveSet::Inserted::kYes);
}

TEST(LiveSetTest, ClassIdsThatDoNotFitBecomeUnknown) {
  EXPECT_EQ(sample(LiveSample::kMaxClassId).alloc_class(), ClassId(LiveSample::kMaxClassId));
  EXPECT_EQ(sample(LiveSample::kMaxClassId + 1).alloc_class(), ClassId());
}

TEST(LiveSetTest, AMillionSamplesStayUnder100MBAndAreGivenBack) {
  LiveSet live(2'000'000);
  std::size_t worst_per_sample = 0;
  for (std::uint64_t id = 1; id <= 1'000'000; ++id) {
    live.insert(SampleId(id), sample(1));
    if (id >= 10'000) worst_per_sample = std::max(worst_per_sample, live.memory_bytes() / id);
  }
  EXPECT_LT(live.memory_bytes(), 100'000'000u);
  EXPECT_LE(worst_per_sample, 64u);
  live.clear();
  EXPECT_EQ(live.size(), 0u);
  EXPECT_EQ(live.memory_bytes(), 0u);
}

// Ids of one domain are that far apart.
TEST(LiveSetTest, SamplesOfOneDomain) {
  constexpr std::uint64_t kStep = MEMPROF_BUFFERS;
  LiveSet live(200'000);
  for (std::uint64_t i = 0; i < 100'000; ++i) live.insert(SampleId(3 + i * kStep), sample(1));
  EXPECT_LE(live.memory_bytes() / live.size(), 64u);
  for (std::uint64_t i = 0; i < 100'000; i += 2) {
    EXPECT_TRUE(live.take(SampleId(3 + i * kStep)).has_value());
  }
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    EXPECT_EQ(live.find(SampleId(3 + i * kStep)).has_value(), i % 2 == 1);
    EXPECT_FALSE(live.find(SampleId(4 + i * kStep)).has_value());
  }
}

// Does the same to a LiveSet and to a map.
class Both {
 public:
  explicit Both(std::uint64_t id_step) : live_(kMax, nullptr, id_step) {}

  void insert(std::uint64_t id) {
    const auto of = static_cast<std::uint32_t>(++inserted_ % LiveSample::kMaxClassId);
    const bool known = map_.contains(id);
    const auto expected = known                 ? LiveSet::Inserted::kAlreadyThere
                          : map_.size() >= kMax ? LiveSet::Inserted::kFull
                                                : LiveSet::Inserted::kYes;
    ASSERT_EQ(live_.insert(SampleId(id), {id, samples(of), ClassId(of), Heap::kMinor}), expected)
        << id;
    if (expected == LiveSet::Inserted::kYes) map_[id] = of;
  }
  void take(std::uint64_t id) {
    const auto taken = live_.take(SampleId(id));
    const auto known = map_.find(id);
    ASSERT_EQ(taken.has_value(), known != map_.end()) << id;
    if (!taken) return;
    expect_same(*taken, *known);
    map_.erase(known);
  }
  void erase_some() {
    const auto gone = [](std::uint32_t of) { return of % 3 == 0; };
    live_.erase_if([&](const LiveSample& sample) { return gone(sample.alloc_class().value()); });
    std::erase_if(map_, [&](const auto& known) { return gone(known.second); });
  }
  void compare() const {
    ASSERT_EQ(live_.size(), map_.size());
    std::size_t seen = 0;
    std::uint64_t classes = 0, expected = 0;
    live_.for_each([&](const LiveSample& sample) {
      ++seen;
      classes += sample.alloc_class().value();
    });
    for (const auto& [id, of] : map_) {
      expected += of;
      const auto found = live_.find(SampleId(id));
      ASSERT_TRUE(found.has_value()) << id;
      expect_same(*found, {id, of});
    }
    ASSERT_EQ(seen, map_.size());
    ASSERT_EQ(classes, expected);
  }

 private:
  static constexpr std::size_t kMax = 20'000;

  // A few have many.
  static std::uint32_t samples(std::uint32_t of) { return of % 100 == 0 ? 65'500 + of % 1'000 : 3; }
  static void expect_same(const LiveSample& sample,
                          const std::pair<const std::uint64_t, std::uint32_t>& known) {
    EXPECT_EQ(sample.alloc_time_ns(), known.first);
    EXPECT_EQ(sample.alloc_class(), ClassId(known.second)) << known.first;
    EXPECT_EQ(sample.n_samples(), samples(known.second)) << known.first;
  }

  LiveSet live_;
  std::map<std::uint64_t, std::uint32_t> map_;
  std::uint64_t inserted_ = 0;
};

// A block's fields do not depend on its position.
TEST(LiveSetTest, ABlockStaysWhatItIs) {
  LiveSet live(100'000);
  const LiveSample large(~0ULL, 70'000, ClassId(LiveSample::kMaxClassId), Heap::kMinor, 7);
  const LiveSample small(~0ULL, 65'535, ClassId(LiveSample::kMaxClassId), Heap::kMinor, 15);
  live.insert(SampleId(1), large);
  live.insert(SampleId(2), small);
  live.insert(SampleId(~0ULL), small);
  EXPECT_TRUE(live.promote(SampleId(2)).has_value());
  for (std::uint64_t id = 3; id < 50'000; ++id) live.insert(SampleId(id), sample(1));
  EXPECT_TRUE(live.promote(SampleId(1)).has_value());
  EXPECT_FALSE(live.promote(SampleId(2)).has_value()) << "before it was moved";
  for (const auto& [id, as] : {std::pair(1ULL, large), {2ULL, small}, {~0ULL, small}}) {
    const auto found = live.take(SampleId(id));
    ASSERT_TRUE(found.has_value()) << id;
    EXPECT_EQ(found->alloc_time_ns(), as.alloc_time_ns());
    EXPECT_EQ(found->n_samples(), as.n_samples());
    EXPECT_EQ(found->alloc_class(), as.alloc_class());
    EXPECT_EQ(found->session(), as.session());
    EXPECT_EQ(found->heap(), id == ~0ULL ? Heap::kMinor : Heap::kMajor);
  }
}

// Numbers ascend by domain. Some come out of order, twice, or are no numbers of an agent; most
// blocks die young.
void come_and_go(std::uint64_t id_step, std::uint64_t domains) {
  std::mt19937_64 random(id_step + domains);
  Both both(id_step);
  std::vector<std::uint64_t> next(domains, 1);
  const auto any_of = [&](std::uint64_t within) {
    const std::uint64_t domain = random() % domains;
    const std::uint64_t back = random() % within;
    return (next[domain] > back ? next[domain] - back : 1) * id_step + domain;
  };
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t domain = random() % domains;
    both.insert(next[domain]++ * id_step + domain);
    if (random() % 8 != 0) both.take(any_of(3000));
    if (random() % 4 == 0) both.take(any_of(100'000));
    if (random() % 50 == 0) both.insert(any_of(50'000));
    if (random() % 100 == 0) both.insert(~0ULL - random() % 50);
    if (random() % 100 == 0) both.take(~0ULL - random() % 50);
    if (i % 30'000 == 0) both.erase_some();
    if (i % 10'000 == 0) both.compare();
    if (::testing::Test::HasFatalFailure()) return;
  }
  both.compare();
}

TEST(LiveSetTest, BlocksComeAndGo) { come_and_go(1, 1); }
TEST(LiveSetTest, BlocksOfDomainsComeAndGo) { come_and_go(MEMPROF_BUFFERS, 5); }
TEST(LiveSetTest, BlocksOfManyDomainsComeAndGo) { come_and_go(MEMPROF_BUFFERS, MEMPROF_BUFFERS); }

TEST(LiveSetTest, FewBlocksTakeLittle) {
  const auto memory = std::make_shared<ByteBudget>(kNoLimit);
  LiveSet live(1'000'000, memory);
  for (std::uint32_t id = 1; id <= 100'000; ++id) {
    live.insert(SampleId(id), sample(id));
    live.take(SampleId(id - id % 100));
  }
  EXPECT_EQ(memory->used(), live.memory_bytes());
  LiveSet few(1'000'000, memory);
  for (std::uint32_t id = 1; id <= 100'000; ++id) {
    few.insert(SampleId(id), sample(id));
    few.take(SampleId(id));
  }
  EXPECT_LT(few.memory_bytes(), 10'000u);
}

}  // namespace
}  // namespace memprofd
