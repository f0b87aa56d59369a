// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/tcp_connections.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "daemon/ctl/client.h"
#include "daemon/export/grpc/grpc_server.h"
#include "tests/kit/fake_service.h"
#include "tests/unit/export/eventually.h"

namespace memprofd {
namespace {

// A connection that begins like HTTP/2 and sends no request.
UniqueFd connect_to(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(0, ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address));
  constexpr std::string_view kBegin("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  EXPECT_EQ(33, ::send(fd.get(), kBegin.data(), kBegin.size(), MSG_NOSIGNAL));
  return fd;
}

bool is_open(const UniqueFd& fd) {
  pollfd closed{.fd = fd.get(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&closed, 1, 0) == 0;
}

TEST(TcpConnections, SilentOnesGiveWay) {
  testing::FakeService service({testing::fixed_target()});
  TraceService traces(service, {});
  const auto stats = std::make_shared<ServerStats>();
  const auto server =
      GrpcServer::start({.listen_address = "127.0.0.1:0", .stats = stats}, service, traces);
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<UniqueFd> silent;
  for (std::size_t i = 0; i < TcpConnections::kMax + 100; ++i) {
    silent.push_back(connect_to((*server)->port()));
  }
  const auto left = [&] { return std::ranges::count_if(silent, is_open); };
  // Connections are counted until they are closed.
  ASSERT_TRUE(testing::eventually([&] { return stats->grpc_cut_off >= 100; })) << left();
  EXPECT_EQ(static_cast<std::ptrdiff_t>(TcpConnections::kMax), left());
  EXPECT_EQ(100u, stats->grpc_cut_off);
  ctl::Client client({"", "127.0.0.1:" + std::to_string((*server)->port())});
  EXPECT_TRUE(client.list_targets().ok());
}

}  // namespace
}  // namespace memprofd
