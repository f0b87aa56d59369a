#include "daemon/attach/ptrace_session.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace memprofd {
namespace {

// A process that is killed while it is attached to: the kernel refuses with EPERM.
TEST(PtraceSession, AProcessThatHasEndedIsNotAQuestionOfPermission) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  {
    PtraceSession session(child);
    EXPECT_EQ(session.seize().code(), absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  PtraceSession session(child);
  EXPECT_EQ(session.seize().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace memprofd
