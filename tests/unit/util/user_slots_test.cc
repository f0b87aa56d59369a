// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/user_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/util/scoped_user.h"

namespace memprofd {
namespace {

using ::testing::HasSubstr;

class UserSlotsTest : public ::testing::Test {
 protected:
  // Number of slots that the user gets until one is refused.
  std::size_t take_all(UserSlots& slots, const std::string& user) {
    for (std::size_t n = 0;; ++n) {
      auto slot = slots.take(user);
      if (!slot.ok()) return n;
      taken_.push_back(*std::move(slot));
    }
  }

  std::vector<UserSlots::Slot> taken_;
};

TEST_F(UserSlotsTest, EachLeavesSomeToWhoComesNextAndAllLeaveSomeToRoot) {
  UserSlots slots(32, "streams are open");
  EXPECT_EQ(take_all(slots, "user 1"), 21u);
  EXPECT_EQ(take_all(slots, "user 2"), 5u);
  EXPECT_EQ(take_all(slots, "user 3"), 1u);
  EXPECT_EQ(take_all(slots, "user 4"), 1u);
  EXPECT_EQ(take_all(slots, "user 5"), 0u);
  EXPECT_EQ(take_all(slots, ""), 4u) << "root";
  EXPECT_EQ(slots.taken(), 32u);
  taken_.clear();
  EXPECT_EQ(slots.taken(), 0u);
  EXPECT_EQ(take_all(slots, ""), 32u);
}

TEST_F(UserSlotsTest, AFewSlotsLeaveOneToOthersAndOneToRoot) {
  UserSlots slots(4, "looks");
  EXPECT_EQ(take_all(slots, "user 1"), 2u);
  EXPECT_EQ(take_all(slots, "user 2"), 1u);
  EXPECT_EQ(take_all(slots, ""), 1u);
}

TEST_F(UserSlotsTest, AUserMayHaveLessThanHisShare) {
  UserSlots slots(512, "connections", 64);
  EXPECT_EQ(take_all(slots, "user 1"), 64u);
  EXPECT_EQ(take_all(slots, ""), 448u);
}

TEST_F(UserSlotsTest, NamesTheUser) {
  UserSlots slots(4, "looks are under way");
  EXPECT_EQ(take_all(slots, "user 1"), 2u);
  EXPECT_EQ(slots.take("user 1").status(),
            absl::ResourceExhaustedError("2 looks are under way, 2 of them of user 1, and that is "
                                         "the limit for one user: ask again later"));
  EXPECT_EQ(take_all(slots, ""), 2u);
  EXPECT_EQ(slots.take("").status(),
            absl::ResourceExhaustedError(
                "4 looks are under way, and that is the limit: ask again later"));
}

TEST_F(UserSlotsTest, APlaceMayOutliveThePlaces) {
  std::optional<UserSlots> slots(std::in_place, 4, "looks");
  taken_.push_back(*slots->take("user 1"));
  slots.reset();
  taken_.clear();
}

TEST(ScopedUser, IsOfOneThreadForSomeTime) {
  EXPECT_EQ("", ScopedUser::current());
  {
    const ScopedUser user("user 1");
    EXPECT_EQ("user 1", ScopedUser::current());
    {
      const ScopedUser itself("");
      EXPECT_EQ("", ScopedUser::current());
    }
    EXPECT_EQ("user 1", ScopedUser::current());
  }
  EXPECT_EQ("", ScopedUser::current());
}

}  // namespace
}  // namespace memprofd
