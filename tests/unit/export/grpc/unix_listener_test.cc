// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/unix_listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <future>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/util/threads/mutex.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

class UnixListenerTest : public ::testing::Test {
 protected:
  void listen(UnixListenerLimits limits) {
    auto listener = UnixListener::listen(path_, limits, std::make_shared<ServerStats>());
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    listener_->serve([this](UniqueFd fd) {
      const MutexLock lock(mutex_);
      taken_.push_back(std::move(fd));
    });
  }
  UniqueFd connect() const {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.reset();
    return fd;
  }
  // The other end of the newest connection, once there are that many.
  int taken(std::size_t n) {
    for (;;) {
      const MutexLock lock(mutex_);
      if (taken_.size() == n) return taken_.back().get();
    }
  }
  static bool ended(const UniqueFd& fd) {
    pollfd wait{fd.get(), POLLRDHUP, 0};
    return ::poll(&wait, 1, 10'000) == 1;
  }
  static bool open(const UniqueFd& fd) {
    pollfd wait{fd.get(), POLLRDHUP, 0};
    return ::poll(&wait, 1, 0) == 0;
  }

  TempDir dir_;
  const std::string path_ = dir_.path("a.sock");
  Mutex mutex_;
  std::vector<UniqueFd> taken_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<UnixListener> listener_;
};

TEST_F(UnixListenerTest, KnowsWhoConnects) {
  listen({});
  const UniqueFd client = connect();
  const auto peer = unix_peer(absl::StrCat("fd:", taken(1)));
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_EQ(peer->uid, ::getuid());
  for (const char* none : {"", "fd:", "fd:-1", "fd:x", "ipv4:127.0.0.1:80", "fd:999999"}) {
    EXPECT_FALSE(unix_peer(none)) << none;
  }
}

TEST_F(UnixListenerTest, ConnectionsAreLimited) {
  // Limits per user are in user_slots_test.cc. Users other than root leave one slot to root.
  listen({.connections = ::getuid() == 0 ? 2u : 4u, .connections_a_user = 2});
  UniqueFd first = connect();
  const UniqueFd second = connect();
  taken(2);
  const UniqueFd third = connect();
  EXPECT_TRUE(ended(third));
  EXPECT_TRUE(open(first) && open(second));
  first.reset();
  for (;;) {  // until it is seen that the first has gone
    const UniqueFd again = connect();
    pollfd wait{again.get(), POLLRDHUP, 0};
    if (::poll(&wait, 1, 100) == 0) break;
  }
}

TEST_F(UnixListenerTest, AClientThatDoesNotReadIsDisconnected) {
  listen({.patience = milliseconds(300)});
  const UniqueFd idle = connect();
  taken(1);
  const UniqueFd deaf = connect();
  const int other_end = taken(2);
  ASSERT_EQ(::write(other_end, "x", 1), 1);
  EXPECT_TRUE(ended(deaf));
  EXPECT_TRUE(open(idle)) << "nothing was sent to it that it could read";
}

TEST_F(UnixListenerTest, StopEndsConnectionsAfterTheGrace) {
  listen({});
  const UniqueFd client = connect();
  taken(1);
  listener_->stop(milliseconds(200));
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
  EXPECT_FALSE(connect());
  EXPECT_TRUE(ended(client));
}

TEST_F(UnixListenerTest, TheSocketIsForOwnerAndGroupUnderAnyUmask) {
  for (const mode_t mask : {0000, 0022, 0077}) {
    const mode_t before = ::umask(mask);
    listen({});
    ::umask(before);
    struct stat status {};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0660u) << mask;
    listener_.reset();
  }
}

}  // namespace
}  // namespace memprofd
