// SPDX-License-Identifier: Apache-2.0
// The sampling sessions of one target: the one whose records arrive and those
// that were asked for and have not begun.
//
// The daemon asks for a session by a new generation, at once; the agent goes
// over to it at its next chance, and records of the old session arrive until
// then. The first batch of a generation is the change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace memprofd {

class Sessions {
 public:
  enum class Arrival { kRunning, kBegins, kUnknown };

  // Sessions kept; one more makes the oldest that does not run forgotten.
  static constexpr std::size_t kMax = 8;

  void request(std::uint32_t generation, double rate);
  // A batch of this generation arrived. Sessions requested before it are over.
  Arrival see(std::uint32_t generation);

  bool running() const { return running_; }
  // Samples per word in the session that runs.
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
  std::vector<Session> sessions_;  // in order of request; the first one runs, if running_
  bool running_ = false;
};

}  // namespace memprofd
