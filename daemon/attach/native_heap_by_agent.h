// SPDX-License-Identifier: Apache-2.0
// Follows the native heap of a program by the agent in it, which replaces its calls of malloc and
// free (agent-lib/include/memprof_native_heap_abi.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/attach/kernel/probes.h"
#include "daemon/attach/native_heap_follower.h"
#include "daemon/discover/agent_finder.h"
#include "daemon/discover/target.h"
#include "daemon/util/shared_fd.h"

namespace memprofd {

class NativeHeapByAgent final : public NativeHeapFollower {
 public:
  // target: outlives this. interval: bytes of native heap per sample; 0: it is not followed.
  NativeHeapByAgent(const Target& target, std::uint64_t interval)
      : target_(&target), interval_(interval) {}

  bool requested() const { return interval_ != 0; }
  // The agent is in the program. borrowed: a thread was borrowed to load it. If the agent cannot
  // follow, that is no error: why_not() has the reason.
  void set_agent(const AgentLocation& agent, bool borrowed);
  // file: the agent's. at: only its file offsets are used.
  absl::Status attach_probes(Probes& probes, const SharedFd& file, const AgentLocation& at) const;
  // Requests that it is followed; can be repeated. kDeadlineExceeded as for AgentControl.
  absl::Status request() const;
  void request_stop() const;
  // True once the agent has restored the calls.
  bool stopped() const;

  double rate() const override;
  bool follows() const override { return control_.has_value(); }
  std::string why_not() const override { return why_not_; }
  const NativeHeapControl* control() const override { return control_ ? &*control_ : nullptr; }

 private:
  absl::Status find(const AgentLocation& agent, bool borrowed);
  // Address at which the runtime records calls from OCaml to C.
  std::uint64_t note_place() const;

  const Target* target_;
  std::uint64_t interval_;
  std::optional<NativeHeapControl> control_;
  std::uint32_t generation_ = 0;
  std::string why_not_;
};

}  // namespace memprofd
