// SPDX-License-Identifier: Apache-2.0
// Sessions that the control thread requests of an agent, for the ingest thread, which has to know a
// session's rate before its first record comes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/attach/attached_target.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

class SessionRequests {
 public:
  struct Request {
    std::uint32_t generation = 0;
    double rate = 0;  // samples per word
    // Positions for Pipeline::expect() in the first session; unset if unknown.
    std::optional<std::vector<BufferPosition>> positions;
  };

  // Control thread. The target is read only for the first request, when it is not finished yet.
  void add(std::uint32_t generation, double rate, const std::shared_ptr<AttachedTarget>& target);
  // Ingest thread: those since the last call.
  std::vector<Request> take();

 private:
  bool any_ = false;  // control thread only
  Mutex mutex_;
  std::vector<Request> requests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
