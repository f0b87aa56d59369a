// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/tcp_connections.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/numbers.h"
#include "daemon/util/fd.h"
#include "daemon/util/guard.h"
#include "daemon/util/log.h"

namespace memprofd {
namespace {

constexpr std::chrono::milliseconds kTimeoutCheck{500};

// True for a connection to that port of this machine.
bool is_connection(int fd, std::uint16_t port) {
  sockaddr_storage own{}, peer{};
  socklen_t bytes = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &bytes) != 0) return false;
  in_port_t found = 0;
  if (own.ss_family == AF_INET) found = reinterpret_cast<const sockaddr_in&>(own).sin_port;
  if (own.ss_family == AF_INET6) found = reinterpret_cast<const sockaddr_in6&>(own).sin6_port;
  bytes = sizeof peer;
  return found != 0 && ntohs(found) == port &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0;
}

// Time since the peer last sent something.
std::uint32_t silence_ms(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 ? info.tcpi_last_data_recv : 0;
}

std::vector<int> connections(std::uint16_t port) {
  std::vector<int> out;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end;
       at.increment(error)) {
    int fd = -1;
    if (absl::SimpleAtoi(at->path().filename().string(), &fd) && is_connection(fd, port)) {
      out.push_back(fd);
    }
  }
  return out;
}

struct Silent {
  std::uint32_t ms;
  UniqueFd fd;  // a duplicate: the original number may have been reused
};

}  // namespace

TcpConnections::TcpConnections(std::uint16_t port, std::shared_ptr<ServerStats> stats)
    : port_(port), stats_(std::move(stats)), thread_([this] { loop(); }) {}

TcpConnections::~TcpConnections() {
  stop_.stop();
  thread_.join();
}

std::size_t TcpConnections::end_idle() const {
  const std::vector<int> found = connections(port_);
  if (found.size() <= kMax) return 0;
  std::vector<Silent> all;
  for (const int number : found) {
    UniqueFd fd(::fcntl(number, F_DUPFD_CLOEXEC, 0));
    if (!fd || !is_connection(fd.get(), port_)) continue;
    const std::uint32_t ms = silence_ms(fd.get());
    all.push_back({ms, std::move(fd)});
  }
  if (all.size() <= kMax) return 0;
  const auto stays = all.end() - kMax;
  std::ranges::nth_element(all, stays, std::ranges::greater(), &Silent::ms);
  std::for_each(all.begin(), stays, [](const Silent& one) { ::shutdown(one.fd.get(), SHUT_RDWR); });
  return all.size() - kMax;
}

void TcpConnections::loop() {
  ::pthread_setname_np(::pthread_self(), "grpc-tcp");
  bool is_logged = false;
  while (stop_.wait(kTimeoutCheck)) {
    std::size_t ended = 0;
    guarded("to read TCP connections", [&] { ended = end_idle(); });
    stats_->grpc_cut_off += ended;
    if (ended > 0 && !is_logged) {
      log_warning("gRPC: closed {} connections on TCP port {}, because there were more than {}",
                  ended, port_, kMax);
    }
    is_logged = ended > 0;
  }
}

}  // namespace memprofd
