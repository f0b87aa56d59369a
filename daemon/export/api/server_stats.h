// SPDX-License-Identifier: Apache-2.0
// Counters that the servers keep about themselves, for /metrics. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/export/clients/request_counts.h"

namespace memprofd {

struct ServerStats {
  RequestCounts http;                           // complete requests, by status
  RequestCounts grpc;                           // calls, by the code of the answer
  std::atomic<std::uint64_t> http_refused = 0;  // refused because of the user or the address
  std::atomic<std::uint64_t> http_cut_off = 0;  // connections that were too slow
  std::atomic<std::uint64_t> grpc_cut_off = 0;  // connections and streams that did not read
  std::atomic<std::uint64_t> grpc_refused = 0;  // connections of users with too many
  std::atomic<int> grpc_streams = 0;            // open now
};

}  // namespace memprofd
