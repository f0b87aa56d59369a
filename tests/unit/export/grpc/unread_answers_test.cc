// SPDX-License-Identifier: Apache-2.0
// Clients that never open the flow-control window of HTTP/2 for answers.
#include "daemon/export/grpc/unread_answers.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/ctl/client.h"
#include "daemon/util/fd.h"
#include "tests/unit/export/eventually.h"
#include "tests/unit/export/grpc/counted_server.h"

namespace memprofd {
namespace {

// A frame of HTTP/2 (RFC 9113, 4.1).
std::string frame(char type, char flags, std::uint32_t stream, std::string_view payload) {
  std::string out{static_cast<char>(payload.size() >> 16), static_cast<char>(payload.size() >> 8),
                  static_cast<char>(payload.size()), type, flags};
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(stream >> shift);
  return out.append(payload);
}

// A field of a header without compression or index (RFC 7541, 6.2.2).
std::string field(std::string_view name, std::string_view value) {
  return std::string("\0", 1) + static_cast<char>(name.size()) + std::string(name) +
         static_cast<char>(value.size()) + std::string(value);
}

// An empty request of a call.
std::string call(std::uint32_t stream, std::string_view method) {
  constexpr char kData = 0, kHeaders = 1, kEndStream = 1, kEndHeaders = 4;
  return frame(kHeaders, kEndHeaders, stream,
               field(":method", "POST") + field(":scheme", "http") + field(":path", method) +
                   field(":authority", "m") + field("te", "trailers") +
                   field("content-type", "application/grpc")) +
         frame(kData, kEndStream, stream, std::string_view("\0\0\0\0\0", 5));
}

// A connection with that many calls, whose answers wait for a window that never opens.
UniqueFd ask_and_give_no_window(const std::string& socket, std::uint32_t calls) {
  constexpr char kSettings = 4;
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::strncpy(address.sun_path, socket.c_str(), sizeof address.sun_path - 1);
  EXPECT_EQ(0, ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address));
  constexpr std::string_view kNoInitialWindow("\0\4\0\0\0\0", 6);
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, kNoInitialWindow);
  for (std::uint32_t i = 0; i < calls; ++i) {
    bytes += call(2 * i + 1, "/memprof.v1.Profiler/ListTargets");
  }
  EXPECT_EQ(static_cast<ssize_t>(bytes.size()), ::write(fd.get(), bytes.data(), bytes.size()));
  return fd;
}

class UnreadAnswersTest : public CountedServer {
 protected:
  std::uint64_t answers() const {
    std::uint64_t ended = 0;
    for (const auto& [kind, counts] : stats_->grpc.all()) {
      for (const auto& [code, count] : counts.ended) ended += count;
    }
    return ended;
  }
};

TEST_F(UnreadAnswersTest, SomeWait) {
  const UniqueFd client = ask_and_give_no_window(socket_, 10);
  ASSERT_TRUE(testing::eventually([&] { return answers() == 10; }));
  EXPECT_EQ(0u, stats_->grpc_cut_off);
}

// Other clients are answered while the silent ones, which are closed after 30 s, still exist.
TEST_F(UnreadAnswersTest, ManyDoNotBlockOtherClients) {
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(ask_and_give_no_window(socket_, GrpcServer::kMaxCalls));
  }
  ASSERT_TRUE(testing::eventually([&] { return stats_->grpc_cut_off > 0; }));
  ASSERT_TRUE(testing::eventually([&] { return ctl::Client({socket_, ""}).detach(4242).ok(); }));
  for (const UniqueFd& client : clients) {
    pollfd closed{.fd = client.get(), .events = 0, .revents = 0};
    EXPECT_EQ(0, ::poll(&closed, 1, 0));
  }
}

}  // namespace
}  // namespace memprofd
