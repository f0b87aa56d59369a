// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/http_connections.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>

#include "daemon/util/fd.h"

namespace memprofd {
namespace {

constexpr std::size_t kMax = 1000;  // unread bytes

class HttpConnectionsTest : public ::testing::Test {
 protected:
  struct Client {
    Client() {
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
      server = UniqueFd(ends[0]);
      client = UniqueFd(ends[1]);
    }
    bool is_cut_off() const {
      pollfd end{.fd = client.get(), .events = POLLRDHUP, .revents = 0};
      return ::poll(&end, 1, 0) == 1 && (end.revents & (POLLRDHUP | POLLHUP)) != 0;
    }
    // The library's connections only need identities.
    const MHD_Connection* connection() const {
      return reinterpret_cast<const MHD_Connection*>(this);
    }
    UniqueFd server, client;
  };

  HttpConnectionsTest() {
    for (const Client& client : clients_) {
      connections_.began(client.connection(), client.server.get());
    }
  }
  ~HttpConnectionsTest() override {
    for (const Client& client : clients_) connections_.ended(client.connection());
  }
  void send(int client, std::size_t bytes) {
    connections_.asked(clients_[client].connection());
    connections_.sending(clients_[client].connection(), bytes);
  }

  const std::shared_ptr<ServerStats> stats_ = std::make_shared<ServerStats>();
  std::array<Client, 4> clients_;
  HttpConnections connections_{{.unsent_bytes = kMax}, stats_};
};

TEST_F(HttpConnectionsTest, TheLongestUnreadAnswerEndsWhenThereAreTooManyBytes) {
  for (const int client : {0, 1, 2}) send(client, 300);
  EXPECT_EQ(stats_->http_cut_off, 0u);
  send(3, 600);
  EXPECT_TRUE(clients_[0].is_cut_off());
  EXPECT_TRUE(clients_[1].is_cut_off());
  EXPECT_FALSE(clients_[2].is_cut_off());
  EXPECT_FALSE(clients_[3].is_cut_off());
  EXPECT_EQ(stats_->http_cut_off, 2u);
}

TEST_F(HttpConnectionsTest, ReadAnswersDoNotCount) {
  for (int i = 0; i < 100; ++i) {
    send(0, 600);
    connections_.answered(clients_[0].connection());
    send(1, 600);
    connections_.answered(clients_[1].connection());
  }
  EXPECT_EQ(stats_->http_cut_off, 0u);
}

TEST_F(HttpConnectionsTest, OneAnswerMayHaveAnySize) {
  send(0, 50 * kMax);
  EXPECT_EQ(stats_->http_cut_off, 0u);
  send(1, 1);
  EXPECT_TRUE(clients_[0].is_cut_off());
}

}  // namespace
}  // namespace memprofd
