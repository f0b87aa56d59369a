// SPDX-License-Identifier: Apache-2.0
// How many connections the gRPC server has on its TCP port, for which gRPC itself knows no limit:
// each takes a descriptor and some 20 KiB, whether or not anybody has said who he is. When there
// are too many, those from which nothing has come for longest give way.
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
  static constexpr std::size_t kMost = 128;

  // Looks on a thread of its own, as long as it is there. stats: counts those that give way.
  TcpConnections(std::uint16_t port, std::shared_ptr<ServerStats> stats);
  ~TcpConnections();
  TcpConnections(const TcpConnections&) = delete;
  TcpConnections& operator=(const TcpConnections&) = delete;

 private:
  // How many had to give way.
  std::size_t look() const;
  void loop();

  const std::uint16_t port_;
  const std::shared_ptr<ServerStats> stats_;
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace memprofd
