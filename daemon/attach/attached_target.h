// SPDX-License-Identifier: Apache-2.0
// A program that is being profiled: with an agent in it (AgentAttachment) or observed from outside
// (ObserveAttachment). Undone by the destructor.
//
//     Waiting --advance()--> Sampling --request_stop()/advance()--> stopped
//        |                      |
//        +-- error, no agent ---+---> the caller drops it
//
// Owned by the control thread; the ingest thread takes kernel()'s ring and reads its counters.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/attach/copy_lease.h"
#include "daemon/attach/inject/agent_control.h"
#include "daemon/attach/kernel/kernel_side.h"
#include "daemon/attach/native_heap_follower.h"
#include "daemon/discover/target.h"

namespace memprofd {

class AttachedTarget {
 public:
  virtual ~AttachedTarget() = default;

  // Number of the next session, which the consumer of its records needs before begin().
  virtual std::uint32_t next_generation() const = 0;
  // Requests a session with this rate: the first one, or a new rate. wanted: the capture mode;
  // capture() has the actual one.
  virtual absl::Status begin(double rate, memprof_capture_by wanted) = 0;

  enum class Progress { kWaiting, kSampling, kAgain, kNoAgent };
  // Takes the next step towards sampling; call it repeatedly while it returns kWaiting. kAgain: a
  // temporary obstacle prevents this session; request another. kNoAgent: the agent is loaded but
  // cannot sample; observe mode remains. The status explains why an attach is impossible.
  virtual absl::StatusOr<Progress> advance() = 0;
  // One line that begins with the pid, valid after kNoAgent.
  virtual std::string why_no_agent() const = 0;
  // Call this every second: repeats the request for a session until it is received. Returns one
  // line if a running session (`sampling`) has ended by itself; otherwise empty.
  virtual std::string keep_alive(bool sampling) const = 0;
  // One line that explains why it is waiting.
  virtual std::string waiting_for() const = 0;

  // Requests the end of sampling; stopped() is true once it has ended.
  virtual void request_stop() = 0;
  virtual bool stopped() const = 0;
  // Abandons a copy that is being taken, and begins to remove the probes; can be repeated. A
  // program is detached when it has no probes any more, even if the kernel has not released them
  // yet.
  virtual void begin_detach() = 0;
  virtual bool detached() = 0;
  // Releases the target, so that another session may take it, and waits until it is detached. Ring
  // and agent remain readable.
  virtual void detach() = 0;

  // A lease for one heap snapshot at a time. Its holder must return it soon if the target is to be
  // detached. kFailedPrecondition, in one line, if no snapshot is possible now.
  virtual absl::StatusOr<std::shared_ptr<const CopyLease>> copy_lease() = 0;

  virtual const Target& target() const = 0;
  // Returns the target for a session of the other mode. Call it after detach(); afterwards only the
  // destructor may run, while the target's memory still exists.
  virtual Target release_target() = 0;
  virtual KernelSide& kernel() = 0;
  // Null until an agent is in the process.
  virtual const AgentControl* agent() const = 0;
  // Lives as long as this.
  virtual NativeHeapFollower& native_heap() = 0;
  // True if one of its threads may be held now: then no slow operation may access its address
  // space.
  virtual bool injecting() const = 0;
  virtual double paused_seconds() const = 0;
  // The capture mode of the last requested session.
  virtual memprof_capture_by capture() const = 0;
  // True in observe mode, which has neither an agent nor a sampling rate.
  virtual bool observes() const = 0;
};

}  // namespace memprofd
