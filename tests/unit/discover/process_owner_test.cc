// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/process_owner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>

#include "daemon/util/fd.h"

namespace memprofd {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

constexpr ProcessUser kUser{1000, 1001};

// A child that changes its rights and then waits; `become` returns whether it succeeded.
class Changed {
 public:
  template <typename Become>
  explicit Changed(Become become) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    UniqueFd done(ends[0]), tell(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      const char could = become() ? 'y' : 'n';
      if (::write(ends[1], &could, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    tell.reset();
    char could = 'n';
    could_ = ::read(done.get(), &could, 1) == 1 && could == 'y';
  }
  ~Changed() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Changed(const Changed&) = delete;
  Changed& operator=(const Changed&) = delete;

  int pid() const { return pid_; }
  bool could() const { return could_; }
  std::optional<ProcessUser> owner() const { return find_owner(ProcFs(), pid_).value().owner; }

 private:
  pid_t pid_ = 0;
  bool could_ = false;
};

// Sets the ids of this thread with raw system calls; the C library would change all threads.
bool set_ids(uid_t real, uid_t effective, uid_t saved, gid_t saved_group = kUser.gid) {
  return ::syscall(SYS_setresgid, kUser.gid, kUser.gid, saved_group) == 0 &&
         ::syscall(SYS_setresuid, real, effective, saved) == 0;
}

bool become_user() { return set_ids(kUser.uid, kUser.uid, kUser.uid); }
bool allow_dumps() { return ::prctl(PR_SET_DUMPABLE, 1) == 0; }

class ProcessOwner : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "root alone makes programs of other users";
  }
};

TEST_F(ProcessOwner, IsTheUserOfAllItsIds) {
  const Changed own([] { return become_user() && allow_dumps(); });
  ASSERT_TRUE(own.could());
  EXPECT_THAT(own.owner(), Optional(kUser));
}

// Its knowledge from its time as root stays private.
TEST_F(ProcessOwner, IsNobodyOfOneThatHasChangedItsUser) {
  const Changed dropped(become_user);
  ASSERT_TRUE(dropped.could());
  EXPECT_EQ(dropped.owner(), std::nullopt);
  EXPECT_FALSE(find_owner(ProcFs(), dropped.pid())->has_ended);
}

TEST_F(ProcessOwner, IsNobodyWhereAnIdIsAnothers) {
  const Changed real([] { return set_ids(0, kUser.uid, kUser.uid) && allow_dumps(); });
  const Changed effective([] { return set_ids(kUser.uid, 0, kUser.uid) && allow_dumps(); });
  const Changed saved([] { return set_ids(kUser.uid, kUser.uid, 0) && allow_dumps(); });
  const Changed group([] { return set_ids(kUser.uid, kUser.uid, kUser.uid, 0) && allow_dumps(); });
  for (const Changed* one : {&real, &effective, &saved, &group}) {
    ASSERT_TRUE(one->could());
    EXPECT_EQ(one->owner(), std::nullopt);
  }
}

TEST_F(ProcessOwner, IsNobodyOfOneWithMoreRights) {
  const Changed one([] {
    __user_cap_header_struct head{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct data[2] = {};
    data[0].permitted = 1u << CAP_NET_BIND_SERVICE;
    return ::prctl(PR_SET_KEEPCAPS, 1) == 0 && become_user() &&
           ::syscall(SYS_capset, &head, data) == 0 && allow_dumps();
  });
  ASSERT_TRUE(one.could());
  EXPECT_EQ(one.owner(), std::nullopt);
}

// Its rights in the namespace belong to the namespace's creator.
TEST_F(ProcessOwner, IsWhoHasMadeItsUserNamespace) {
  const Changed one([] {
    return become_user() && allow_dumps() && ::unshare(CLONE_NEWUSER) == 0 && allow_dumps();
  });
  if (!one.could()) GTEST_SKIP() << "users may make no namespaces here";
  ASSERT_NE(ProcFs().status(one.pid())->permitted_capabilities, 0u);
  EXPECT_THAT(one.owner(), Optional(kUser));
}

TEST_F(ProcessOwner, IsUnknownOnceItHasEnded) {
  const Changed one([] { return become_user() && allow_dumps(); });
  const std::uint64_t began = find_owner(ProcFs(), one.pid())->start_time_ticks;
  EXPECT_EQ(began, ProcFs().start_time(one.pid()).value());
  ::kill(one.pid(), SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(0, ::waitid(P_PID, static_cast<id_t>(one.pid()), &info, WEXITED | WNOWAIT));
  const auto ended = find_owner(ProcFs(), one.pid());
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_TRUE(ended->has_ended);
  EXPECT_EQ(ended->owner, std::nullopt);
  EXPECT_TRUE(absl::IsNotFound(check_is_meant_now(ProcFs(), {one.pid(), began, kUser})));
}

TEST_F(ProcessOwner, IsComparedWithTheClient) {
  const Changed own([] { return become_user() && allow_dumps(); });
  const ProcFs proc;
  const std::uint64_t began = proc.start_time(own.pid()).value();
  EXPECT_TRUE(check_is_meant_now(proc, own.pid()).ok()) << "who may look into all";
  EXPECT_TRUE(check_is_meant_now(proc, {own.pid(), began, kUser}).ok());
  EXPECT_TRUE(check_is_meant_now(proc, {own.pid(), 0, kUser}).ok());
  for (const ProcessUser other : {ProcessUser{1000, 1000}, ProcessUser{1002, 1001}}) {
    const absl::Status refused = check_is_meant_now(proc, {own.pid(), began, other});
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("--grpc.group-controls"));
  }
  EXPECT_EQ(check_is_meant_now(proc, {own.pid(), began + 1, kUser}).code(),
            absl::StatusCode::kFailedPrecondition);
  constexpr int kNobody = 1 << 30;
  EXPECT_TRUE(absl::IsNotFound(check_is_meant_now(proc, kNobody)));
}

}  // namespace
}  // namespace memprofd
