// SPDX-License-Identifier: Apache-2.0
#include "daemon/model/program_end.h"

#include <gtest/gtest.h>

#include <csignal>

namespace memprofd {
namespace {

TEST(ProgramEnd, FollowsTheWaitStatus) {
  EXPECT_EQ(ProgramEnd::of_status(0, false), (ProgramEnd{EndCause::kExit, 0}));
  EXPECT_EQ(ProgramEnd::of_status(2 << 8, false), (ProgramEnd{EndCause::kExit, 2}));
  EXPECT_EQ(ProgramEnd::of_status(SIGTERM, false), (ProgramEnd{EndCause::kSignal, SIGTERM}));
  constexpr int kCore = 0x80;
  EXPECT_EQ(ProgramEnd::of_status(SIGSEGV | kCore, false),
            (ProgramEnd{EndCause::kSignal, SIGSEGV}));
  EXPECT_EQ(ProgramEnd::of_status(SIGKILL, true), (ProgramEnd{EndCause::kOutOfMemory, SIGKILL}));
}

// The OOM killer marks programs, too, that end by themselves in that moment.
TEST(ProgramEnd, AnExitIsNotAnOutOfMemoryKill) {
  EXPECT_EQ(ProgramEnd::of_status(1 << 8, true), (ProgramEnd{EndCause::kExit, 1}));
}

TEST(ProgramEnd, AnEndThatWasAskedForIsNoFailure) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) {
    EXPECT_FALSE(is_failure({EndCause::kSignal, signal})) << signal;
  }
  for (const int signal : {SIGSEGV, SIGABRT, SIGKILL, 40}) {
    EXPECT_TRUE(is_failure({EndCause::kSignal, signal})) << signal;
  }
  EXPECT_FALSE(is_failure({EndCause::kExit, 0}));
  EXPECT_FALSE(is_failure({EndCause::kExit, 1})) << "an answer of the program";
  EXPECT_TRUE(is_failure({EndCause::kExit, 2})) << "an uncaught exception of OCaml";
  EXPECT_TRUE(is_failure({EndCause::kOutOfMemory, SIGKILL}));
  EXPECT_FALSE(is_failure({EndCause::kExec}));
  EXPECT_FALSE(is_failure({}));
}

TEST(ProgramEnd, IsReportedInOneLine) {
  EXPECT_EQ(end_text({}), "the program ended");
  EXPECT_EQ(end_text({EndCause::kExit, 3}), "the program ended: exit code 3");
  EXPECT_EQ(end_text({EndCause::kSignal, SIGSEGV}), "the program ended: killed by SIGSEGV");
  EXPECT_EQ(end_text({EndCause::kSignal, 40}), "the program ended: killed by signal 40");
  EXPECT_EQ(end_text({EndCause::kOutOfMemory, SIGKILL}),
            "the program ended: out of memory, killed by the kernel (OOM)");
  EXPECT_EQ(signal_name({EndCause::kExit, SIGSEGV}), "");
}

}  // namespace
}  // namespace memprofd
