// SPDX-License-Identifier: Apache-2.0
// The program's memory shows when probes are out; what the kernel does after that is left to it.
// Needs root.
#include <bpf/bpf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "daemon/attach/kernel/probes.h"
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

// Ids of the links that this process has open, in ascending order.
std::vector<std::uint32_t> open_links() {
  std::vector<std::uint32_t> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream in(entry.path());
    std::uint32_t id = 0;
    for (std::string word; in >> word;) {
      if (word == "link_id:" && in >> id) ids.push_back(id);
    }
  }
  std::ranges::sort(ids);
  return ids;
}

// The kernel may still have a link that no process has open.
bool in_kernel(std::uint32_t link) {
  std::uint32_t next = 0;
  return bpf_link_get_next_id(link - 1, &next) == 0 && next == link;
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

// Links that are left to the kernel end although no one waits for them. Links of the tests before
// and of other programs begin and end meanwhile, so only those of this session are looked at.
TEST_P(ProbeRemovalTest, WhatIsLeftToTheKernelEnds) {
  const std::vector<std::uint32_t> before = open_links();
  auto side = load(config());
  attach_all(*side);
  std::vector<std::uint32_t> links;
  std::ranges::set_difference(open_links(), before, std::back_inserter(links));
  ASSERT_GT(links.size(), 3u) << "three uprobes and tracepoints";
  EXPECT_TRUE(std::ranges::all_of(links, in_kernel));
  side->probes().begin_detach();
  ASSERT_TRUE(eventually([&] { return side->probes().detached(*memory_, places_); }));
  EXPECT_TRUE(side->probes().detached(*memory_, {})) << "nothing is waited for any more";
  EXPECT_TRUE(eventually([&] { return shows_none() && std::ranges::none_of(links, in_kernel); }));
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
