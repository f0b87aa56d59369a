// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/answer_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "daemon/ctl/questions.h"
#include "daemon/export/api/query_service.h"
#include "memprof/v1/profiler.pb.h"
#include "tests/kit/fake_questions.h"
#include "tests/kit/fake_service.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

using testing::FakeQuestions;
using testing::FakeService;
using testing::fixed_target;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::size_t kMiB = 1 << 20;

class AnswerPagesTest : public ::testing::Test {
 protected:
  static WholeAnswer answer_of(std::size_t n_rows, std::size_t row_bytes,
                               const std::string& question = "sites") {
    return {.question = question, .head = "head", .rows = {n_rows, std::string(row_bytes, 'x')}};
  }
  static void expect_again(const absl::StatusOr<AnswerPage>& page, absl::StatusCode code) {
    EXPECT_EQ(page.status().code(), code) << page.status();
    EXPECT_THAT(std::string(page.status().message()), HasSubstr("; ask again without a token"));
  }

  std::chrono::steady_clock::time_point now_{std::chrono::hours(1)};
  AnswerPages kept_{[this] { return now_; }};
};

TEST_F(AnswerPagesTest, PagesTogetherAreTheAnswer) {
  AnswerPage page = kept_.first_page(answer_of(250, 10), 100).value();
  std::vector<std::size_t> ends{page.end};
  while (!page.next_token.empty()) {
    const std::size_t end = page.end;
    page = kept_.next_page(page.next_token, "sites", 100).value();
    EXPECT_EQ(page.begin, end);
    EXPECT_EQ(page.answer->head, "head");
    ends.push_back(page.end);
  }
  EXPECT_EQ(ends, (std::vector<std::size_t>{100, 200, 250}));
}

TEST_F(AnswerPagesTest, ATokenCanBeUsedAgainAndWithAnotherSize) {
  const AnswerPage first = kept_.first_page(answer_of(10, 10), 4).value();
  EXPECT_EQ(kept_.next_page(first.next_token, "sites", 4)->end, 8u);
  EXPECT_EQ(kept_.next_page(first.next_token, "sites", 4)->end, 8u);
  EXPECT_EQ(kept_.next_page(first.next_token, "sites", 100)->end, 10u);
}

TEST_F(AnswerPagesTest, APageFitsIntoAMessage) {
  const AnswerPage page = kept_.first_page(answer_of(10, kMiB - 100), 1000).value();
  EXPECT_EQ(page.end, 2u);
  EXPECT_EQ(kept_.next_page(page.next_token, "sites", 1000)->end, 4u);
  const AnswerPage alone = kept_.first_page(answer_of(2, 3 * kMiB), 1000).value();
  EXPECT_EQ(alone.end, 1u);
}

TEST_F(AnswerPagesTest, AnAnswerIsKeptForAMinute) {
  const AnswerPage first = kept_.first_page(answer_of(10, 10), 4).value();
  now_ += AnswerPages::kMaxAge - std::chrono::seconds(1);
  EXPECT_TRUE(kept_.next_page(first.next_token, "sites", 4).ok());
  now_ += std::chrono::seconds(1);
  expect_again(kept_.next_page(first.next_token, "sites", 4), absl::StatusCode::kAborted);
}

TEST_F(AnswerPagesTest, TheOldestMakeRoom) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 4; ++i) {
    tokens.push_back(kept_.first_page(answer_of(5, kMiB), 1)->next_token);
  }
  expect_again(kept_.next_page(tokens[0], "sites", 1), absl::StatusCode::kAborted);
  for (int i = 1; i < 4; ++i) EXPECT_TRUE(kept_.next_page(tokens[i], "sites", 1).ok()) << i;
}

TEST_F(AnswerPagesTest, AnAnswerWithoutRoomIsRefusedAndDisplacesNoOther) {
  const AnswerPage first = kept_.first_page(answer_of(10, 10), 4).value();
  const auto refused = kept_.first_page(answer_of(17, kMiB), 1);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.status().message(),
            "the answer has 17 MiB, and 16 MiB are kept between pages: ask for fewer rows by limit "
            "or filter, or without callstacks");
  EXPECT_TRUE(kept_.next_page(first.next_token, "sites", 4).ok());
}

TEST_F(AnswerPagesTest, OnePageIsNotKept) {
  EXPECT_THAT(kept_.first_page(answer_of(3, kMiB / 2), 3)->next_token, IsEmpty());
}

TEST_F(AnswerPagesTest, OtherTokensAreRefused) {
  const std::string token = kept_.first_page(answer_of(10, 10), 4)->next_token;
  expect_again(kept_.next_page(token, "other", 4), absl::StatusCode::kInvalidArgument);
  const std::string id = token.substr(0, token.find('-') + 1);
  expect_again(kept_.next_page(id + "11", "sites", 4), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(kept_.next_page(id + "10", "sites", 4)->end, 10u);
  for (const char* bad : {"x", "-", "1-", "1-2-3", "zz-4", "1--1", "1-99999999999999999999"}) {
    expect_again(kept_.next_page(bad, "sites", 4), absl::StatusCode::kInvalidArgument);
  }
  expect_again(kept_.next_page("0000000000000001-4", "sites", 4), absl::StatusCode::kAborted);
}

TEST(RowsOfPage, AreAHundredUnlessAsked) {
  EXPECT_EQ(*rows_of_page(0), 100u);
  EXPECT_EQ(*rows_of_page(1), 1u);
  EXPECT_EQ(*rows_of_page(1000), 1000u);
  EXPECT_EQ(rows_of_page(1001).status().message(),
            "bad page_size 1001: a page has at most 1000 rows");
}

// A program with 2,500 sites, and a fixed one.
class PagesTest : public ::testing::Test {
 protected:
  static constexpr int kSites = 2500;
  static std::vector<ProfileSnapshotPtr> targets() {
    auto many = fixed_target();
    many->rows.clear();
    for (std::uint64_t i = 0; i < kSites; ++i) {
      testing::add_callstack(*many, {1000 + i, 2, 3}, {.allocated = 10, .live = 1});
    }
    return {many, fixed_target(4300)};
  }
  static pb::ListSitesRequest request() {
    pb::ListSitesRequest request;
    request.set_pid(4242);
    return request;
  }

  FakeService service_{targets()};
  QueryService queries_{service_};
};

TEST_F(PagesTest, SitesComeAHundredAtATime) {
  pb::ListSitesRequest asked = request();
  const pb::ListSitesResponse first = queries_.list_sites(asked).value();
  EXPECT_EQ(first.sites_size(), 100);
  EXPECT_EQ(first.total_rows(), 2500u);
  EXPECT_EQ(first.groups(), 2500u);
  EXPECT_EQ(first.sites(0).callstack_size(), 0);
  asked.set_page_token(first.next_page_token());
  const pb::ListSitesResponse second = queries_.list_sites(asked).value();
  EXPECT_EQ(second.sites_size(), 100);
  EXPECT_EQ(second.total_rows(), 2500u);
  EXPECT_EQ(second.target().pid(), 4242);
  EXPECT_EQ(second.total().samples(), first.total().samples());
  EXPECT_NE(second.sites(0).function(), first.sites(0).function());
  asked.set_limit(7);
  EXPECT_EQ(queries_.list_sites(asked).status().code(), absl::StatusCode::kInvalidArgument)
      << "a token of another question";
}

TEST_F(PagesTest, ALimitIsOfAllPages) {
  pb::ListSitesRequest asked = request();
  asked.set_limit(150);
  const pb::ListSitesResponse first = queries_.list_sites(asked).value();
  EXPECT_EQ(first.total_rows(), 150u);
  EXPECT_EQ(first.groups(), 2500u);
  asked.set_page_token(first.next_page_token());
  const pb::ListSitesResponse last = queries_.list_sites(asked).value();
  EXPECT_EQ(last.sites_size(), 50);
  EXPECT_THAT(last.next_page_token(), IsEmpty());
}

TEST_F(PagesTest, AStreamHasFirstPagesOnly) {
  pb::ListSitesRequest asked = request();
  const pb::ListSitesResponse page = queries_.first_sites(asked).value();
  EXPECT_EQ(page.sites_size(), 100);
  EXPECT_EQ(page.total_rows(), 2500u);
  EXPECT_THAT(page.next_page_token(), IsEmpty());
  asked.set_limit(120);
  EXPECT_EQ(queries_.first_sites(asked)->total_rows(), 120u);
  asked.set_page_token("1-1");
  EXPECT_EQ(queries_.first_sites(asked).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PagesTest, AllRowsAreReadPageByPage) {
  FakeQuestions questions(targets());
  const pb::ListSitesResponse all = ctl::all_sites(questions, request()).value();
  EXPECT_EQ(all.sites_size(), kSites);
  EXPECT_THAT(all.next_page_token(), IsEmpty());
  std::set<std::string> functions;
  for (const pb::Site& site : all.sites()) functions.insert(site.function());
  EXPECT_EQ(functions.size(), std::size_t{kSites});
  pb::DiffSitesRequest diff;
  diff.mutable_base()->set_pid(4300);
  diff.mutable_other()->set_pid(4242);
  EXPECT_EQ(ctl::all_diffs(questions, diff)->diffs_size(), kSites + 4);
}

// Forgets each answer after its first page, as often as requested.
class Forgetful : public FakeQuestions {
 public:
  Forgetful(std::vector<ProfileSnapshotPtr> targets, int times)
      : FakeQuestions(std::move(targets)), times_(times) {}
  absl::StatusOr<pb::ListSitesResponse> list_sites(const pb::ListSitesRequest& request) override {
    if (!request.page_token().empty() && times_-- > 0) return absl::AbortedError("forgotten");
    return FakeQuestions::list_sites(request);
  }

 private:
  int times_;
};

TEST_F(PagesTest, AForgottenAnswerIsRequestedAgain) {
  Forgetful twice(targets(), 2);
  EXPECT_EQ(ctl::all_sites(twice, request())->sites_size(), kSites);
  Forgetful ever(targets(), 1000);
  EXPECT_TRUE(absl::IsAborted(ctl::all_sites(ever, request()).status()));
}

}  // namespace
}  // namespace memprofd
