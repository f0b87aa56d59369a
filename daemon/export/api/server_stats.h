// SPDX-License-Identifier: Apache-2.0
// What the servers count of themselves, for /metrics. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace memprofd {

struct ServerStats {
  std::atomic<std::uint64_t> http_requests = 0;  // whole ones
  std::atomic<std::uint64_t> http_refused = 0;   // of those, for who asked or from where
  std::atomic<std::uint64_t> http_cut_off = 0;   // connections that were too slow
  std::atomic<std::uint64_t> grpc_cut_off = 0;   // connections and streams that did not read
  std::atomic<std::uint64_t> grpc_refused = 0;   // connections of users with too many
  std::atomic<int> grpc_streams = 0;             // open now
};

}  // namespace memprofd
