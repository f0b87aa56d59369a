// SPDX-License-Identifier: Apache-2.0
// The program's memory shows when probes are out; what the kernel does after that is left to it.
// Needs root.
#include <bpf/bpf.h>
#include <gtest/gtest.h>

#include <array>

#include "daemon/attach/kernel/breakpoints.h"
#include "daemon/discover/target_memory.h"
#include "tests/kernel/probe_kinds_fixture.h"

namespace memprofd {
namespace {

class ProbeRemovalTest : public ProbeKindsTest {
 protected:
  const std::array<std::uint64_t, 3> places_ = {
      reinterpret_cast<std::uint64_t>(probe_target_collect),
      reinterpret_cast<std::uint64_t>(probe_target_register_frametable),
      reinterpret_cast<std::uint64_t>(probe_target_batch)};
  const std::unique_ptr<TargetMemory> memory_ = TargetMemory::open(target_->pid()).value();

  bool shows_none() const { return shows_no_probe(*memory_, places_); }
};

INSTANTIATE_TEST_SUITE_P(Kinds, ProbeRemovalTest, kProbeKinds, kind_name);

// Links of the kernel, whoever holds them.
int links() {
  int count = 0;
  for (std::uint32_t id = 0; bpf_link_get_next_id(id, &id) == 0;) ++count;
  return count;
}

TEST_P(ProbeRemovalTest, TheProgramShowsThemUntilTheyAreOut) {
  EXPECT_TRUE(shows_none());
  auto side = load(config());
  attach_all(*side);
  EXPECT_FALSE(shows_none());
  side->probes().begin_detach();
  EXPECT_TRUE(eventually([&] { return shows_none(); }));
  EXPECT_EQ(target_->semaphore(), 0);
}

// The control thread goes on with others meanwhile. Where no address is known it is the kernel that
// has to be done, some tens of milliseconds later.
TEST_P(ProbeRemovalTest, WhoDetachesCanAskWhetherTheyAreOut) {
  auto side = load(config());
  attach_all(*side);
  side->probes().begin_detach();
  EXPECT_FALSE(side->probes().detached(*memory_, {}));
  EXPECT_TRUE(eventually([&] { return side->probes().detached(*memory_, {}); }));
  EXPECT_EQ(target_->semaphore(), 0);
}

// The kernel has to be done with ours, then.
TEST_P(ProbeRemovalTest, ThoseOfAnotherListenerAreSeen) {
  auto side = load(config()), other = load(config());
  attach_all(*side);
  ASSERT_EQ(other->probes().attach(Probe::kCapture, site(probe_target_collect)), absl::OkStatus());
  side->probes().begin_detach();
  EXPECT_TRUE(eventually([&] { return side->probes().detached(*memory_, places_); }));
  EXPECT_FALSE(shows_none());
  other->probes().detach();
  EXPECT_TRUE(shows_none());
}

// What is left comes to its end although nobody waits for it.
TEST_P(ProbeRemovalTest, WhatIsLeftToTheKernelEnds) {
  const int before = links();
  auto side = load(config());
  attach_all(*side);
  EXPECT_GT(links(), before);
  side->probes().begin_detach();
  ASSERT_TRUE(eventually([&] { return side->probes().detached(*memory_, places_); }));
  EXPECT_TRUE(side->probes().detached(*memory_, {})) << "nothing is waited for any more";
  EXPECT_TRUE(eventually([&] { return shows_none() && links() <= before; }));
}

// The same place can have a probe again while the kernel is not done with the one before.
TEST_P(ProbeRemovalTest, ThePlaceIsFreeAtOnce) {
  place({{functions_[0]}});
  for (int round = 0; round < 10; ++round) {
    auto side = load(config());
    attach_all(*side);
    EXPECT_EQ(target_->semaphore(), 1);
    target_->collect(0);
    EXPECT_EQ(take(side).size(), 1u);
    side->probes().begin_detach();
    ASSERT_TRUE(eventually([&] { return side->probes().detached(*memory_, places_); }));
    EXPECT_EQ(target_->semaphore(), 0);
  }
}

}  // namespace
}  // namespace memprofd
