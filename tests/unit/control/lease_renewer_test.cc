// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/lease_renewer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

namespace memprofd {
namespace {

using std::chrono::milliseconds;

// Waits for that many more renewals.
void await_renewals(const std::atomic<int>& renewals, int more) {
  const int before = renewals;
  while (renewals < before + more) std::this_thread::yield();
}

TEST(LeaseRenewer, RenewsEachRepeatedly) {
  LeaseRenewer renewer(milliseconds(1));
  std::atomic<int> first = 0, second = 0;
  renewer.keep(1, [&] { ++first; });
  renewer.keep(2, [&] { ++second; });
  await_renewals(first, 3);
  await_renewals(second, 3);
}

TEST(LeaseRenewer, ADroppedLeaseIsRenewedAtMostOnceMore) {
  LeaseRenewer renewer(milliseconds(1));
  std::atomic<int> dropped = 0, other = 0;
  renewer.keep(1, [&] { ++dropped; });
  renewer.keep(2, [&] { ++other; });
  await_renewals(dropped, 1);
  renewer.drop(1);
  const int at_the_drop = dropped;
  await_renewals(other, 5);
  EXPECT_LE(dropped, at_the_drop + 1);
}

TEST(LeaseRenewer, ANewOneTakesThePlaceOfTheOneBefore) {
  LeaseRenewer renewer(milliseconds(1));
  std::atomic<int> before = 0, after = 0;
  renewer.keep(1, [&] { ++before; });
  await_renewals(before, 1);
  renewer.keep(1, [&] { ++after; });
  const int at_the_change = before;
  await_renewals(after, 5);
  EXPECT_LE(before, at_the_change + 1);
}

TEST(LeaseRenewer, ReleasesWhatItOwns) {
  auto owned = std::make_shared<int>();
  const std::weak_ptr<int> alive = owned;
  {
    LeaseRenewer renewer(milliseconds(1));
    renewer.keep(1, [owned = std::move(owned)] {});
    renewer.drop(1);
    while (!alive.expired()) std::this_thread::yield();
  }
}

}  // namespace
}  // namespace memprofd
