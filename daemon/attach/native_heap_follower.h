// SPDX-License-Identifier: Apache-2.0
// Follows the native heap of a target, if that was requested: by its agent (native_heap_by_agent.h)
// or, in observe mode, by probes (native_heap_by_probes.h).
#pragma once

#include <string>

#include "daemon/attach/inject/native_heap_control.h"

namespace memprofd {

// Owned by the control thread.
class NativeHeapFollower {
 public:
  virtual ~NativeHeapFollower() = default;

  // Samples per word; 0 if not requested, or impossible.
  virtual double rate() const = 0;
  // True if native blocks are followed now.
  virtual bool follows() const = 0;
  // The reason why the native heap is not, or no longer, followed, in one line without the pid.
  // Empty if it is or will be followed, or was not requested.
  virtual std::string why_not() const = 0;
  // Call this often: what follows may have to end.
  virtual void watch() {}
  // The agent's side; null while no agent follows.
  virtual const NativeHeapControl* control() const { return nullptr; }
};

}  // namespace memprofd
