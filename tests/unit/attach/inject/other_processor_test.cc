// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/other_processor.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>
#include <vector>

#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

constexpr int kPid = 4242;

class OtherProcessor : public ::testing::Test {
 protected:
  OtherProcessor() {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) ours_.push_back(cpu);
    }
  }
  void add_thread(char state, int processor) {
    const std::string folder = "4242/task/" + std::to_string(next_tid_++);
    proc_.write(folder + "/status", std::string("State:\t") + state + "\nTgid:\t4242\n");
    proc_.write(folder + "/stat",
                "7 (a b) " + std::string(1, state) +
                    " 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0 0 0 0 0 0 0 0 "
                    "0 0 0 0 0 0 17 " +
                    std::to_string(processor) + " 0 0\n");
  }
  // Processors on which a thread that avoids others may run.
  std::vector<int> kept() const {
    std::vector<int> kept;
    std::thread([&] {
      keep_off_processors_of(ProcFs(proc_.path()), kPid);
      cpu_set_t allowed;
      sched_getaffinity(0, sizeof allowed, &allowed);
      for (const int cpu : ours_) {
        if (CPU_ISSET(cpu, &allowed)) kept.push_back(cpu);
      }
    }).join();
    return kept;
  }

  TempDir proc_;
  std::vector<int> ours_;
  int next_tid_ = kPid;
};

TEST_F(OtherProcessor, IsNotThatOfAThreadThatRuns) {
  if (ours_.size() < 2) GTEST_SKIP() << "there is one processor";
  add_thread('S', ours_[0]);
  add_thread('R', ours_[1]);
  std::vector<int> others = ours_;
  std::erase(others, ours_[1]);
  EXPECT_EQ(kept(), others);
}

TEST_F(OtherProcessor, WhereTheProgramRunsOnAllIsAnyOfThem) {
  for (const int cpu : ours_) add_thread('R', cpu);
  EXPECT_EQ(kept(), ours_);
}

TEST_F(OtherProcessor, OfAProgramThatHasEndedIsAnyOfThem) { EXPECT_EQ(kept(), ours_); }

}  // namespace
}  // namespace memprofd
