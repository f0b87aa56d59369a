// SPDX-License-Identifier: Apache-2.0
// Serves memprof.v1.Profiler and Trace, health and reflection.
//
// grpc_access.h has the rights of callers. The mode of the Unix socket (0660) decides who reaches
// it. The TCP address, off by default, needs certificates of both sides if other machines can reach
// it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/export/api/answer_pages.h"
#include "daemon/export/api/server_info.h"
#include "daemon/export/api/server_stats.h"
#include "daemon/export/api/service.h"
#include "daemon/export/api/trace_service.h"
#include "daemon/export/grpc/grpc_access.h"
#include "daemon/export/grpc/grpc_tls.h"
#include "daemon/export/heaps/heap_analyser.h"

namespace memprofd {

struct GrpcServerOptions {
  std::string socket_path;     // empty: no Unix socket
  std::string listen_address;  // host:port; empty: no TCP
  GrpcTls tls = {};            // of TCP
  GrpcAccessOptions access = {};
  std::shared_ptr<ServerStats> stats = std::make_shared<ServerStats>();
  std::shared_ptr<AnswerPages> answers = std::make_shared<AnswerPages>();
  ServerFacts facts = {};
  std::shared_ptr<HeapAnalyser> heaps = std::make_shared<HeapAnalyser>();
  // A stream ends if its client accepts no data for this time.
  std::chrono::milliseconds stream_patience{30'000};
  // A connection without a call for this time is closed; an active client reconnects by itself.
  std::chrono::milliseconds idle_patience{60'000};
};

class GrpcServer {
 public:
  // At once on one connection.
  static constexpr std::uint32_t kMaxCalls = 16;

  // Listens when it returns. service and traces must outlive the server.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> start(const GrpcServerOptions& options,
                                                           ProfilerService& service,
                                                           TraceService& traces);
  // Removes the socket, ends streams and traces, and gives running calls one second. Then clients
  // that do not read their answers are disconnected on the Unix socket; on TCP that may take for
  // ever.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // The port in use, also if port 0 was requested; 0 without a TCP address.
  std::uint16_t port() const;

 private:
  struct Impl;
  explicit GrpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace memprofd
