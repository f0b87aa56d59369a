// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/lease_keeper.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

namespace memprofd {
namespace {

using std::chrono::milliseconds;

// Until it has been called so often, from now on.
void await_renewals(const std::atomic<int>& renewals, int more) {
  const int before = renewals;
  while (renewals < before + more) std::this_thread::yield();
}

TEST(LeaseKeeper, RenewsEachAgainAndAgain) {
  LeaseKeeper keeper(milliseconds(1));
  std::atomic<int> first = 0, second = 0;
  keeper.keep(1, [&] { ++first; });
  keeper.keep(2, [&] { ++second; });
  await_renewals(first, 3);
  await_renewals(second, 3);
}

TEST(LeaseKeeper, WhatIsDroppedIsRenewedOnceMoreAtMost) {
  LeaseKeeper keeper(milliseconds(1));
  std::atomic<int> dropped = 0, other = 0;
  keeper.keep(1, [&] { ++dropped; });
  keeper.keep(2, [&] { ++other; });
  await_renewals(dropped, 1);
  keeper.drop(1);
  const int at_the_drop = dropped;
  await_renewals(other, 5);
  EXPECT_LE(dropped, at_the_drop + 1);
}

TEST(LeaseKeeper, ANewOneTakesThePlaceOfTheOneBefore) {
  LeaseKeeper keeper(milliseconds(1));
  std::atomic<int> before = 0, after = 0;
  keeper.keep(1, [&] { ++before; });
  await_renewals(before, 1);
  keeper.keep(1, [&] { ++after; });
  const int at_the_change = before;
  await_renewals(after, 5);
  EXPECT_LE(before, at_the_change + 1);
}

TEST(LeaseKeeper, LetsGoOfWhatItOwns) {
  auto owned = std::make_shared<int>();
  const std::weak_ptr<int> alive = owned;
  {
    LeaseKeeper keeper(milliseconds(1));
    keeper.keep(1, [owned = std::move(owned)] {});
    keeper.drop(1);
    while (!alive.expired()) std::this_thread::yield();
  }
}

}  // namespace
}  // namespace memprofd
