// SPDX-License-Identifier: Apache-2.0
// A target that is repeatedly written to a file and compared with what is read back.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "daemon/query/range_counter.h"
#include "daemon/state/target_reader.h"
#include "daemon/state/target_writer.h"
#include "tests/kit/fake_profile.h"
#include "tests/kit/recording.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {

inline constexpr std::uint64_t kRoom = 1u << 30;

// Allocates in 40 classes; most blocks die young, some old, some stay.
class RandomProgram {
 public:
  explicit RandomProgram(Recording& recording, unsigned seed = 1, std::uint64_t first_id = 1)
      : recording_(recording), random_(seed), next_id_(first_id) {}

  void run_second(bool follows_rates = true) {
    for (int i = 0; i < 30; ++i) {
      recording_.advance(kSecond / 30);
      step();
    }
    if (follows_rates && random_() % 17 == 0)
      recording_.resume_at(random_() % 2 == 0 ? 0.01 : 0.004);
    if (random_() % 40 == 0) {
      recording_.lose(3);
      live_.clear();
    }
  }

 private:
  void step() {
    const std::uint64_t id = next_id_++;
    const std::uint64_t words = random_() % 4 == 0 ? 5000 : 1 + random_() % 30;
    recording_.alloc(id, 1 + random_() % 10, 1 + random_() % 3, words, 7 + random_() % 2);
    live_.push_back(id);
    if (random_() % 3 == 0) recording_.promote(live_[random_() % live_.size()]);
    if (random_() % 5 != 0) {
      const std::size_t dies = random_() % live_.size();
      recording_.die(live_[dies],
                     random_() % 2 == 0 ? MEMPROF_DEALLOC_MINOR : MEMPROF_DEALLOC_MAJOR);
      live_.erase(live_.begin() + static_cast<long>(dies));
    }
  }

  Recording& recording_;
  std::mt19937 random_;
  std::uint64_t next_id_;
  std::vector<std::uint64_t> live_;
};

inline std::shared_ptr<testing::TableSymbolizer> some_names() {
  auto names = std::make_shared<testing::TableSymbolizer>();
  for (std::uint64_t address = 1; address <= 10; ++address) {
    const std::string name = absl::StrCat("Shop.f", address);
    names->table[address] = {
        {.function = name + ".inlined", .file = "shop.ml", .line = 3},
        {.function = name, .file = "shop.ml", .line = 7, .library = "shop.exe"}};
  }
  return names;
}

class StoredTargetTest : public ::testing::Test {
 protected:
  StoredTargetTest() { recording_.symbolizer = symbolizer_; }

  ProfileSnapshot snapshot() const {
    ProfileSnapshot result = recording_.snapshot();
    result.info.pid = 42;
    result.info.comm = "shop";
    return result;
  }
  ProfileSnapshotPtr read() const {
    auto stored = read_target(path_);
    EXPECT_TRUE(stored.ok()) << stored.status();
    return stored.ok() ? stored->snapshot : std::make_shared<ProfileSnapshot>();
  }
  void write(const ProfileSnapshot& snapshot) {
    const absl::Status status = writer_.write(snapshot, kRoom);
    ASSERT_TRUE(status.ok()) << status;
  }

  TempDir dir_;
  const std::string path_ = dir_.path("42.target");
  Recording recording_;
  RandomProgram program_{recording_};
  const std::shared_ptr<Symbolizer> symbolizer_ = some_names();
  TargetWriter writer_{path_};
};

inline void expect_same(const Estimate& a, const Estimate& b, bool exact) {
  EXPECT_EQ(a.samples, b.samples);
  if (exact) {
    EXPECT_EQ(a.words, b.words);
  }
  EXPECT_NEAR(a.words, b.words, 1e-9 * std::abs(b.words));
  EXPECT_NEAR(a.variance_words2, b.variance_words2, 1e-9 * std::abs(b.variance_words2) + 1e-9);
  EXPECT_NEAR(a.skew_words3, b.skew_words3, 1e-9 * std::abs(b.skew_words3) + 1e-6);
}

inline void expect_same(const DeathCounts& a, const DeathCounts& b) {
  ASSERT_EQ(a.entries().size(), b.entries().size());
  for (std::size_t i = 0; i < a.entries().size(); ++i) {
    const DeathCounts::Entry &x = a.entries()[i], &y = b.entries()[i];
    EXPECT_EQ(x.code, y.code);
    EXPECT_EQ(x.n, y.n);
    EXPECT_GE(x.words, y.words) << "counters do not fall";
    EXPECT_NEAR(x.words, y.words, 1e-8 * y.words);
  }
}

inline void expect_same_flows(const Counters& a, const Counters& b, bool exact) {
  expect_same(a.allocated, b.allocated, exact);
  expect_same(a.promoted, b.promoted, exact);
  for (int heap = 0; heap < kHeaps; ++heap) {
    expect_same(a.deallocated[heap], b.deallocated[heap], exact);
  }
  EXPECT_NEAR(a.allocated_objects, b.allocated_objects, 1e-9 * b.allocated_objects);
}

// Compares the flows of every window and live memory at its end.
inline void expect_same_history(const ProfileSnapshot& a, const ProfileSnapshot& b) {
  const RangeCounter of_a(a), of_b(b);
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    for (const HistoryWindowPtr& window : b.history.tiers[tier]) {
      const auto flows = of_a.flows(window->begin_ns(), window->end_ns());
      const auto expected = of_b.flows(window->begin_ns(), window->end_ns());
      const auto live = of_a.live_at(window->end_ns());
      const auto expected_live = of_b.live_at(window->end_ns());
      const auto same = std::ranges::find(a.history.tiers[tier], window->end_ns(),
                                          [](const auto& of_a) { return of_a->end_ns(); });
      if (same != a.history.tiers[tier].end()) {
        EXPECT_EQ((*same)->at_end().memory, window->at_end().memory);
      }
      for (std::size_t row = 0; row < b.rows.size(); ++row) {
        expect_same_flows(flows[row], expected[row], false);
        EXPECT_NEAR(live[row].samples, expected_live[row].samples, 1e-6);
        EXPECT_NEAR(live[row].words, expected_live[row].words,
                    1e-6 * expected_live[row].words + 1e-3);
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

inline void expect_same(const ProfileSnapshot& a, const ProfileSnapshot& b) {
  expect_same(a.counters.live, b.counters.live, true);
  expect_same(a.counters.all_allocated(), b.counters.all_allocated(), true);
  EXPECT_EQ(a.counters.alloc_events, b.counters.alloc_events);
  EXPECT_EQ(a.drops.total(), b.drops.total());
  EXPECT_EQ(a.attached_ns, b.attached_ns);
  EXPECT_EQ(a.now_ns(), b.now_ns());
  ASSERT_EQ(a.rows.size(), b.rows.size());
  for (std::size_t i = 0; i < a.rows.size(); ++i) {
    EXPECT_EQ(a.rows[i].id, b.rows[i].id);
    EXPECT_EQ(a.rows[i].alloc_class, b.rows[i].alloc_class);
    EXPECT_EQ(a.rows[i].callstack->entries, b.rows[i].callstack->entries);
    expect_same_flows(a.rows[i].counters, b.rows[i].counters, true);
    expect_same(a.rows[i].counters.live, b.rows[i].counters.live, false);
    expect_same(a.rows[i].counters.deaths, b.rows[i].counters.deaths);
    EXPECT_EQ(a.rows[i].counters.deaths.sum_ns(), b.rows[i].counters.deaths.sum_ns());
    EXPECT_EQ(a.rows[i].counters.ages.entries().size(), b.rows[i].counters.ages.entries().size());
  }
}

}  // namespace memprofd
