// SPDX-License-Identifier: Apache-2.0
// The sampling sessions of one target: the current one, whose records arrive, and those that were
// requested and have not begun.
//
// The daemon requests a session with a new generation immediately. The agent switches to it at its
// next opportunity, and records of the old session arrive until then. The first batch of a
// generation marks the change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace memprofd {

class Sessions {
 public:
  enum class Arrival { kRunning, kBegins, kUnknown };

  // Maximum number of sessions. One more discards the oldest that is not running.
  static constexpr std::size_t kMax = 8;

  void request(std::uint32_t generation, double rate);
  // A batch of this generation arrived, which ends all sessions requested before it.
  Arrival see(std::uint32_t generation);

  bool running() const { return running_; }
  // Samples per word in the current session.
  double rate() const { return sessions_.front().rate; }
  std::uint32_t generation() const { return sessions_.front().generation; }
  bool runs(std::uint32_t generation) const {
    return running_ && sessions_.front().generation == generation;
  }

 private:
  struct Session {
    std::uint32_t generation;
    double rate;
  };
  std::vector<Session> sessions_;  // in order of request; the first one is running if running_
  bool running_ = false;
};

}  // namespace memprofd
