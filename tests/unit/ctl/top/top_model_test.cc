// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/ctl/top/top_help.h"
#include "tests/kit/fake_questions.h"

namespace memprofd::ctl {
namespace {

using memprofd::testing::FakeQuestions;
using memprofd::testing::fixed_target;
using ::testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

class TopModelTest : public ::testing::Test {
 protected:
  TopModelTest() { answer(); }

  static TopViewState view_of(int pid) {
    TopViewState view_state;
    view_state.pid = pid;
    return view_state;
  }
  TopAnswer asked(const TopModel& model) {
    TopAnswer answer = ask_top(questions_, model.view_state());
    answer.number = model.number();
    return answer;
  }
  void answer() { model_.take(asked(model_)); }
  void press(std::initializer_list<int> keys) {
    for (const int key : keys) model_.press(key);
  }
  void type(std::string_view text) {
    for (const char c : text) model_.press(c);
  }
  std::string selected() const {
    return model_.selected() == nullptr ? "" : model_.selected()->function();
  }
  std::int64_t now() const { return model_.answer().program.time_unix_ns(); }

  FakeQuestions questions_;
  TopModel model_{view_of(4242)};
};

TEST_F(TopModelTest, SortsByOneLetter) {
  const std::uint64_t before = model_.number();
  model_.press('a');
  EXPECT_EQ(model_.view_state().order, pb::MEASURE_ALLOCATED);
  EXPECT_NE(model_.number(), before);
  EXPECT_TRUE(model_.wants_answer());
  EXPECT_FALSE(model_.current());
  EXPECT_EQ(selected(), "Sessions.remember");  // of the answer before
  answer();
  EXPECT_TRUE(model_.current());
  EXPECT_FALSE(model_.wants_answer());
  EXPECT_EQ(selected(), "Parser.token");
}

TEST_F(TopModelTest, EverySortKeyHasAnOrderOfItsOwn) {
  std::set<int> orders;
  for (const char key : {'l', 'a', 'p', 'y', 'o', 't', 's', 'b', 'n'}) {
    model_.press(key);
    orders.insert(model_.view_state().order);
    EXPECT_TRUE(model_.wants_answer());
    answer();
    EXPECT_TRUE(model_.problem().ok());
  }
  EXPECT_EQ(orders.size(), 9u);
}

TEST_F(TopModelTest, MovesTheSortColumn) {
  model_.press('>');
  EXPECT_EQ(model_.view_state().order, pb::MEASURE_ALLOCATED);
  press({'<', '<'});
  EXPECT_EQ(model_.view_state().order, pb::MEASURE_ALLOCATED_OBJECTS);
  model_.press('>');
  EXPECT_EQ(model_.view_state().order, pb::MEASURE_LIVE);
}

TEST_F(TopModelTest, GroupsInTurn) {
  std::vector<pb::GroupBy> seen;
  for (int i = 0; i < 4; ++i) {
    model_.press('g');
    seen.push_back(model_.view_state().group_by);
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(pb::GROUP_BY_FUNCTION, pb::GROUP_BY_FILE,
                                           pb::GROUP_BY_MODULE, pb::GROUP_BY_SITE));
  TopViewState by_thread = view_of(4242);
  by_thread.group_by = pb::GROUP_BY_THREAD;
  TopModel model(by_thread);
  model.press('g');
  EXPECT_EQ(model.view_state().group_by, pb::GROUP_BY_SITE);
}

TEST_F(TopModelTest, WindowsInTurn) {
  std::vector<double> seen;
  for (int i = 0; i < 5; ++i) {
    model_.press('w');
    seen.push_back(model_.view_state().window_seconds);
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(600, 3600, 0, 10, 60));
}

TEST_F(TopModelTest, TheCursorStaysInTheList) {
  ASSERT_EQ(model_.rows(), 4u);
  model_.set_page(2);
  model_.press(kKeyUp);
  EXPECT_EQ(model_.cursor(), 0u);
  press({'j', kKeyDown});
  EXPECT_EQ(model_.cursor(), 2u);
  EXPECT_EQ(model_.first(), 1u);
  model_.press(kKeyPageDown);
  EXPECT_EQ(model_.cursor(), 3u);
  EXPECT_EQ(model_.first(), 2u);
  model_.press(kKeyHome);
  EXPECT_EQ(model_.first(), 0u);
  model_.press(kKeyEnd);
  EXPECT_EQ(model_.cursor(), 3u);
  press({kKeyPageUp, 'k'});
  EXPECT_EQ(model_.cursor(), 0u);
  model_.press(kKeyEnd);
  model_.set_page(100);  // the screen has grown
  EXPECT_EQ(model_.first(), 0u);
}

TEST_F(TopModelTest, ASelectedRowIsFollowedButTheFirst) {
  TopAnswer turned = asked(model_);
  turned.sites.mutable_sites()->SwapElements(0, 2);
  const std::string third = turned.sites.sites(0).function();
  press({kKeyDown, kKeyDown});
  EXPECT_EQ(selected(), third);
  model_.take(turned);
  EXPECT_EQ(selected(), third);
  EXPECT_EQ(model_.cursor(), 0u);
  answer();
  EXPECT_EQ(model_.cursor(), 0u);  // the first is for what leads
  EXPECT_NE(selected(), third);
}

TEST_F(TopModelTest, TheCursorStaysWhereARowVanishes) {
  model_.press(kKeyEnd);
  TopAnswer fewer = asked(model_);
  fewer.sites.mutable_sites()->DeleteSubrange(1, 3);
  model_.take(fewer);
  EXPECT_EQ(model_.cursor(), 0u);
  fewer.sites.clear_sites();
  model_.take(fewer);
  EXPECT_EQ(model_.selected(), nullptr);
  press({kKeyDown, kKeyEnter, kKeyPageDown, kKeyEnd});
  EXPECT_EQ(model_.view_state().view, TopView::kSites);
}

TEST_F(TopModelTest, DrillsInAndComesBack) {
  press({kKeyDown, kKeyDown});
  const std::string function = selected();
  model_.press(kKeyEnter);
  EXPECT_EQ(model_.view_state().view, TopView::kCallstacks);
  EXPECT_EQ(model_.view_state().drilled.function(), function);
  model_.press(kKeyEnter);  // the list is still that of sites
  EXPECT_EQ(model_.overlay(), TopOverlay::kNone);
  answer();
  ASSERT_EQ(model_.rows(), 1u);
  model_.press('g');
  EXPECT_THAT(model_.message(), HasSubstr("Esc"));
  EXPECT_FALSE(model_.wants_answer());
  model_.press(kKeyEnter);
  EXPECT_EQ(model_.overlay(), TopOverlay::kFrames);
  EXPECT_EQ(model_.opened().callstack_size(), 3);
  press({kKeyDown, 'x'});
  EXPECT_EQ(model_.overlay(), TopOverlay::kFrames);
  model_.press(kKeyEscape);
  EXPECT_EQ(model_.overlay(), TopOverlay::kNone);
  EXPECT_EQ(model_.view_state().view, TopView::kCallstacks);
  model_.press(kKeyBackspace);
  EXPECT_EQ(model_.view_state().view, TopView::kSites);
  answer();
  EXPECT_EQ(selected(), function);
  model_.press(kKeyEscape);
  EXPECT_EQ(model_.view_state().view, TopView::kSites);
}

TEST_F(TopModelTest, PausesAtWhatIsShownAndGoesOn) {
  EXPECT_TRUE(model_.moves());
  model_.press(' ');
  EXPECT_TRUE(model_.paused());
  EXPECT_EQ(model_.view_state().until_ns, now() - kSecond);
  EXPECT_TRUE(model_.wants_answer());
  answer();
  EXPECT_FALSE(model_.moves());
  EXPECT_FALSE(model_.wants_answer());
  model_.press(' ');
  EXPECT_FALSE(model_.paused());
  EXPECT_TRUE(model_.moves());
  model_.press(' ');
  model_.press('L');
  EXPECT_FALSE(model_.paused());
}

TEST_F(TopModelTest, StepsThroughTheHistoryWithinItsLimits) {
  model_.press(kKeyLeft);  // pauses
  const std::int64_t paused = now() - kSecond;
  EXPECT_EQ(model_.view_state().until_ns, paused - 2 * kSecond);  // a minute has 30 steps
  answer();
  model_.press(']');
  EXPECT_EQ(model_.view_state().until_ns, paused);
  EXPECT_EQ(model_.message(), "");
  model_.press(kKeyRight);
  EXPECT_EQ(model_.view_state().until_ns, paused);
  EXPECT_THAT(model_.message(), HasSubstr("newest"));
  model_.press('{');
  EXPECT_EQ(model_.view_state().until_ns, paused - 60 * kSecond);
  EXPECT_EQ(model_.message(), "");
  for (int i = 0; i < 20; ++i) model_.press('{');
  EXPECT_EQ(model_.view_state().until_ns,
            model_.answer().program.target().attached_unix_ns() + kSecond);
  EXPECT_THAT(model_.message(), HasSubstr("oldest"));
  model_.press('}');
  EXPECT_GT(model_.view_state().until_ns,
            model_.answer().program.target().attached_unix_ns() + kSecond);
}

TEST_F(TopModelTest, StepsNotBeforeTheOldestThatIsKept) {
  TopAnswer cut = asked(model_);
  cut.history.set_oldest_unix_ns(now() - 10 * kSecond);
  model_.take(cut);
  for (int i = 0; i < 20; ++i) model_.press('[');
  EXPECT_EQ(model_.view_state().until_ns, now() - 9 * kSecond);
}

TEST_F(TopModelTest, EditsTheFilter) {
  model_.press('/');
  EXPECT_EQ(model_.overlay(), TopOverlay::kFilter);
  type("qL(");
  EXPECT_FALSE(model_.quit());
  model_.press(kKeyEnter);
  EXPECT_EQ(model_.overlay(), TopOverlay::kFilter);
  EXPECT_THAT(model_.message(), HasSubstr("missing )"));
  EXPECT_FALSE(model_.wants_answer());
  press({kKeyBackspace, kKeyBackspace, kKeyBackspace});
  type("Cache --heap minor");
  EXPECT_EQ(model_.message(), "");
  model_.press(kKeyEnter);
  EXPECT_EQ(model_.overlay(), TopOverlay::kNone);
  EXPECT_EQ(model_.view_state().filter.pattern(), "Cache");
  answer();
  EXPECT_EQ(selected(), "Cache.fill");
  model_.press('/');
  EXPECT_EQ(model_.edit().text(), "--match Cache --heap minor");
  type("x");
  model_.press(kKeyEscape);
  EXPECT_EQ(model_.view_state().filter.pattern(), "Cache");
  EXPECT_FALSE(model_.wants_answer());
}

TEST_F(TopModelTest, ChoosesTheOnlyTargetByItself) {
  TopModel model(TopViewState{});
  EXPECT_EQ(model.view_state().view, TopView::kTargets);
  questions_.service().set({});
  model.take(asked(model));
  EXPECT_EQ(model.view_state().view, TopView::kTargets);
  model.press(kKeyEnter);
  EXPECT_EQ(model.view_state().pid, 0);
  questions_.service().set({fixed_target(7)});
  model.take(asked(model));
  EXPECT_EQ(model.view_state().view, TopView::kSites);
  EXPECT_EQ(model.view_state().pid, 7);
  EXPECT_TRUE(model.wants_answer());
}

TEST_F(TopModelTest, LetsChooseAmongTargets) {
  questions_.service().set({fixed_target(7), fixed_target(9)});
  TopModel model(TopViewState{});
  model.take(asked(model));
  EXPECT_EQ(model.view_state().view, TopView::kTargets);
  EXPECT_EQ(model.rows(), 2u);
  model.press('a');  // is no key here
  EXPECT_EQ(model.view_state().order, pb::MEASURE_LIVE);
  model.press(kKeyDown);
  model.press(kKeyEnter);
  EXPECT_EQ(model.view_state().pid, 9);
  model.take(asked(model));
  model.press(' ');
  model.press(kKeyTab);
  EXPECT_EQ(model.view_state().view, TopView::kTargets);
  model.take(asked(model));
  EXPECT_EQ(model.view_state().view, TopView::kTargets);  // chosen by hand now
  EXPECT_TRUE(model.moves());  // the list does, though the program's time stands still
  model.press(kKeyEscape);
  EXPECT_EQ(model.view_state().pid, 9);
  EXPECT_TRUE(model.paused());
  model.take(asked(model));
  model.press(kKeyTab);
  model.take(asked(model));
  model.press(kKeyEnter);
  EXPECT_EQ(model.view_state().pid, 7);
  EXPECT_FALSE(model.paused());  // another program's time
}

TEST_F(TopModelTest, KeepsTheLastAnswerWhileTheDaemonIsAway) {
  model_.press(' ');
  answer();
  TopAnswer failed;
  failed.number = model_.number();
  failed.status = absl::UnavailableError("gone");
  model_.take(failed);
  EXPECT_EQ(model_.problem().message(), "gone");
  EXPECT_EQ(model_.rows(), 4u);
  EXPECT_TRUE(model_.moves());  // is asked until it is back, though paused
  EXPECT_FALSE(model_.wants_answer());
  model_.press('a');
  EXPECT_TRUE(model_.wants_answer());
  answer();
  EXPECT_TRUE(model_.problem().ok());
  EXPECT_FALSE(model_.moves());
}

TEST_F(TopModelTest, AnEarlierAnswerIsShownButNotWhatWasWanted) {
  const TopAnswer early = asked(model_);
  model_.press('a');
  model_.take(early);
  EXPECT_FALSE(model_.current());
  EXPECT_TRUE(model_.wants_answer());
}

TEST_F(TopModelTest, HelpScrollsAndGoes) {
  model_.set_page(5);
  model_.press('?');
  EXPECT_EQ(model_.overlay(), TopOverlay::kHelp);
  model_.press(kKeyEnd);
  EXPECT_EQ(model_.overlay_first(), top_help().size() - 5);
  model_.press(kKeyPageDown);
  EXPECT_EQ(model_.overlay_first(), top_help().size() - 5);
  model_.press('a');
  EXPECT_EQ(model_.overlay(), TopOverlay::kNone);
  EXPECT_EQ(model_.view_state().order, pb::MEASURE_LIVE);
  model_.press('h');
  EXPECT_EQ(model_.overlay_first(), 0u);
  model_.press('q');
  EXPECT_TRUE(model_.quit());
}

TEST_F(TopModelTest, OtherKeysDoNothing) {
  for (const int key : {+kKeyNone, +kKeyResize, +kKeyDelete, +'x', 0x20AC}) {
    model_.press(key);
    EXPECT_FALSE(model_.wants_answer()) << key;
    EXPECT_FALSE(model_.quit());
  }
}

}  // namespace
}  // namespace memprofd::ctl
