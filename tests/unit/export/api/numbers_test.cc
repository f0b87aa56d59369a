// SPDX-License-Identifier: Apache-2.0
// No answer contains NaN. Across sessions with very different rates, one of which counts every
// word, rounding errors can make differences of sums slightly negative.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "daemon/export/api/message_json.h"
#include "daemon/export/api/query_service.h"
#include "tests/kit/fake_service.h"
#include "tests/kit/full_length.h"
#include "tests/kit/recording.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

// Blocks of all sizes, followed over sessions as in OCaml 5 or forgotten with each.
ProfileSnapshot recorded(unsigned seed, bool resumes) {
  Recording recording;
  recording.symbolizer = testing::fixed_symbolizer();
  std::mt19937 random(seed);
  std::vector<std::uint64_t> live;
  std::uint64_t id = 0;
  for (const double rate : {1.0, 1e-6, 0.3, 1.0, 3e-5, 1e-2}) {
    resumes ? recording.resume_at(rate) : recording.set_rate(rate);
    if (!resumes) live.clear();
    for (int second = 0; second < 3; ++second) {
      for (int i = 0; i < 40; ++i) {
        const std::uint64_t words = std::uint64_t{2} << random() % 20;
        live.push_back(++id);
        recording.alloc(id, 1 + random() % 3, 1 + random() % 5, words);
        if (random() % 2 == 0) recording.promote(id);
        if (random() % 4 == 0) continue;
        std::swap(live[random() % live.size()], live.back());
        recording.die(live.back(), MEMPROF_DEALLOC_MAJOR);
        live.pop_back();
      }
      recording.advance(kSecond);
    }
  }
  return recording.snapshot();
}

class Numbers : public ::testing::TestWithParam<bool> {
 protected:
  void record(unsigned seed) {
    auto target = std::make_shared<ProfileSnapshot>(recorded(seed, GetParam()));
    target->info.pid = 77;
    service_.set({target});
    for (std::int64_t second = 0; second <= 18; second += 3) {
      limits_.push_back(static_cast<std::int64_t>(kStart + second * kSecond));
    }
  }
  pb::Selection range(std::size_t begin, std::size_t end) const {
    pb::Selection selection;
    selection.set_pid(77);
    selection.mutable_range()->set_begin_unix_ns(limits_[begin]);
    selection.mutable_range()->set_end_unix_ns(limits_[end]);
    return selection;
  }
  template <typename Answer>
  void expect_numbers(const absl::StatusOr<Answer>& answer) {
    ASSERT_TRUE(answer.ok()) << answer.status();
    const std::string text = message_json(*answer, true).value();
    const std::size_t at = text.find("NaN");
    EXPECT_EQ(at, std::string::npos) << text.substr(at - std::min<std::size_t>(at, 300), 400);
    ++answers_;
  }
  void ask(const pb::Selection& asked, const pb::Selection& base) {
    pb::ListSitesRequest sites;
    sites.set_pid(77);
    *sites.mutable_range() = asked.range();
    expect_numbers(queries_.list_sites(sites));
    sites.mutable_filter()->set_min_lifetime_seconds(1);
    expect_numbers(queries_.list_sites(sites));
    pb::ListLeaksRequest leaks;
    leaks.set_limit(10);
    *leaks.mutable_selection() = asked;
    expect_numbers(queries_.list_leaks(leaks));
    for (const auto measure : {pb::MEASURE_LIVE, pb::MEASURE_PROMOTED, pb::MEASURE_LIVE_OBJECTS}) {
      pb::DiffSitesRequest diff;
      diff.set_order(measure);
      *diff.mutable_base() = base;
      *diff.mutable_other() = asked;
      expect_numbers(queries_.diff_sites(diff));
      pb::GetHistoryRequest history;
      history.set_measure(measure);
      *history.mutable_selection() = asked;
      expect_numbers(queries_.get_history(history));
    }
  }

  testing::FakeService service_;
  QueryService queries_{service_};
  std::vector<std::int64_t> limits_;
  int answers_ = 0;
};

TEST_P(Numbers, AreNumbersOverAllRanges) {
  const int seeds = rounds_of(3, 10);
  for (int seed = 0; seed < seeds; ++seed) {
    limits_.clear();
    record(static_cast<unsigned>(seed));
    for (std::size_t begin = 0; begin + 1 < limits_.size(); ++begin) {
      for (std::size_t end = begin + 1; end < limits_.size(); ++end) {
        ask(range(begin, end), range(begin, begin + 1));
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(answers_, 150 * seeds);
}

INSTANTIATE_TEST_SUITE_P(Following, Numbers, ::testing::Bool());

}  // namespace
}  // namespace memprofd
