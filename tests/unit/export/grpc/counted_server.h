// SPDX-License-Identifier: Apache-2.0
// A gRPC server with one target, on a Unix socket, and its counters.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "daemon/export/grpc/grpc_server.h"
#include "tests/kit/fake_service.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {

class CountedServer : public ::testing::Test {
 protected:
  CountedServer() {
    auto server = GrpcServer::start({.socket_path = socket_, .stats = stats_}, service_, traces_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  TempDir dir_;
  const std::string socket_ = dir_.path("m.sock");
  const std::shared_ptr<ServerStats> stats_ = std::make_shared<ServerStats>();
  testing::FakeService service_{{testing::fixed_target()}};
  TraceService traces_{service_, {}};
  std::unique_ptr<GrpcServer> server_;
};

}  // namespace memprofd
