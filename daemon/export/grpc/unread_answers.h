// SPDX-License-Identifier: Apache-2.0
// Answers that are being sent: each occupies one of the gRPC server's threads until its client
// accepts it, which a client need never do (flow control of HTTP/2). If there are too many, the
// user with the most loses the one that has waited longest.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "daemon/export/api/server_stats.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// Thread-safe.
class UnreadAnswers {
 public:
  // stats: counts those that are cut off.
  explicit UnreadAnswers(std::shared_ptr<ServerStats> stats) : stats_(std::move(stats)) {}

  static constexpr std::size_t kMax = 24;

  // The context must exist until the end of its answer, which may be reported twice.
  void begin(grpc::ServerContextBase& context);
  void end(const grpc::ServerContextBase& context);

 private:
  struct Answer {
    grpc::ServerContextBase* context;
    std::string user;
  };

  void cut_one_off() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<ServerStats> stats_;
  Mutex mutex_;
  std::list<Answer> answers_ ABSL_GUARDED_BY(mutex_);  // in the order in which they began
};

}  // namespace memprofd
