// SPDX-License-Identifier: Apache-2.0
// Limits the connections to the gRPC server's TCP port, for which gRPC itself has no limit: each
// takes a descriptor and some 20 KiB, even before the client has authenticated. Beyond the limit,
// connections that have been silent for longest are closed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "daemon/export/api/server_stats.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

class TcpConnections {
 public:
  static constexpr std::size_t kMax = 128;

  // Checks on a thread of its own. stats: counts the closed connections.
  TcpConnections(std::uint16_t port, std::shared_ptr<ServerStats> stats);
  ~TcpConnections();
  TcpConnections(const TcpConnections&) = delete;
  TcpConnections& operator=(const TcpConnections&) = delete;

 private:
  // Number of connections that were closed.
  std::size_t end_idle() const;
  void loop();

  const std::uint16_t port_;
  const std::shared_ptr<ServerStats> stats_;
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace memprofd
