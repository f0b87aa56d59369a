// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/run_children.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace memprofd {
namespace {

class Nobody : public RunChildrenUser {
 public:
  void began(RunTarget&) override { ++begins; }
  void ended(RunTarget&, bool) override { ++ends; }
  int begins = 0, ends = 0;
};

class RunChildrenTest : public ::testing::Test {
 protected:
  UniqueFd connect() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    children_->socket_name().copy(address.sun_path + 1, sizeof address.sun_path - 1);
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto length = offsetof(sockaddr_un, sun_path) + 1 + children_->socket_name().size();
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                        static_cast<socklen_t>(length)),
              0);
    return fd;
  }
  static memprof_share_request request(memprof_share_kind kind, const char* exe) {
    memprof_share_request request{};
    request.magic = MEMPROF_SHARE_MAGIC;
    request.abi_version = MEMPROF_AGENT_ABI;
    request.kind = kind;
    std::strncpy(request.exe, exe, sizeof request.exe - 1);
    return request;
  }
  static void send(const UniqueFd& fd, const memprof_share_request& request) {
    ASSERT_EQ(::send(fd.get(), &request, sizeof request, 0), static_cast<ssize_t>(sizeof request));
  }
  // The end of the connection, not a descriptor.
  static bool is_refused(const UniqueFd& fd) {
    char byte = 0;
    return ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

  RunPrograms programs_;
  Nobody user_;
  std::unique_ptr<RunChildren> children_ =
      RunChildren::create({.rate = 0.01}, programs_, user_).value();
};

TEST_F(RunChildrenTest, ProgramsWithoutARuntimeAreNamed) {
  for (int i = 0; i < 2; ++i) {
    const UniqueFd fd = connect();
    send(fd, request(MEMPROF_SHARE_NO_RUNTIME, "/bin/ls"));
    children_->update();
  }
  ASSERT_EQ(children_->not_profiled().size(), 1u);
  EXPECT_EQ(children_->not_profiled().begin()->first.first, "ls");
  EXPECT_EQ(children_->not_profiled().begin()->second, 2u);
}

// The file that the process runs decides, not the process's own statement.
TEST_F(RunChildrenTest, WhoIsNoOcamlProgramGetsNoMemory) {
  const UniqueFd fd = connect();
  send(fd, request(MEMPROF_SHARE_STARTED, "/usr/bin/server"));
  children_->update();
  EXPECT_TRUE(is_refused(fd));
  ASSERT_EQ(children_->not_profiled().size(), 1u);
  EXPECT_EQ(children_->not_profiled().begin()->first.first, "server");
  EXPECT_EQ(user_.begins, 0);
}

TEST_F(RunChildrenTest, OtherAgentsGetNoMemory) {
  const UniqueFd fd = connect();
  memprof_share_request other = request(MEMPROF_SHARE_STARTED, "/usr/bin/server");
  ++other.abi_version;
  send(fd, other);
  children_->update();
  EXPECT_TRUE(is_refused(fd));
  EXPECT_TRUE(
      absl::StrContains(children_->not_profiled().begin()->first.second, "another version"));
}

TEST_F(RunChildrenTest, GarbageIsCounted) {
  memprof_share_request unnamed = request(MEMPROF_SHARE_STARTED, "");
  std::memset(unnamed.exe, 'x', sizeof unnamed.exe);  // no end
  unnamed.magic = 1;
  const UniqueFd wrong = connect(), shorter = connect(), silent = connect();
  send(wrong, unnamed);
  ASSERT_EQ(::send(shorter.get(), "x", 1, 0), 1);
  children_->update();
  EXPECT_TRUE(is_refused(wrong));
  EXPECT_TRUE(is_refused(shorter));
  EXPECT_EQ(children_->unnamed(), 2u);
  children_->finish();
  EXPECT_TRUE(is_refused(silent));
  EXPECT_EQ(children_->unnamed(), 3u);
  EXPECT_EQ(user_.ends, 0);
}

// With any number of names, some are reported and the others counted.
TEST_F(RunChildrenTest, NamesAreBounded) {
  constexpr std::uint64_t kNames = 3 * RunChildren::kMaxNames;
  for (std::uint64_t i = 0; i < kNames; ++i) {
    const UniqueFd fd = connect();
    send(fd, request(MEMPROF_SHARE_NO_RUNTIME, std::to_string(i).c_str()));
    children_->update();
  }
  EXPECT_EQ(children_->not_profiled().size(), RunChildren::kMaxNames);
  EXPECT_EQ(children_->unnamed(), kNames - RunChildren::kMaxNames);
}

TEST_F(RunChildrenTest, OnesThatSayNothingHoldNobodyUp) {
  std::vector<UniqueFd> silent;
  for (std::size_t i = 0; i < 100; ++i) silent.push_back(connect());
  children_->update();
  const UniqueFd fd = connect();
  send(fd, request(MEMPROF_SHARE_NO_RUNTIME, "ls"));
  children_->update();
  EXPECT_EQ(children_->not_profiled().size(), 1u);
}

}  // namespace
}  // namespace memprofd
