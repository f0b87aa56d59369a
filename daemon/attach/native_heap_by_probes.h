// SPDX-License-Identifier: Apache-2.0
// Follows the native heap of a program without an agent, by probes at its malloc, if few enough
// calls hit them. The calls are counted for a second first, and in each second after.
//
//     begin() ---> kCounting --- a second ---> kFollowing --- too many hits ---> kOff
//                      '--- too many hits ------------------------------------->'
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "daemon/attach/attach_options.h"
#include "daemon/attach/kernel/kernel_side.h"
#include "daemon/attach/malloc_sites.h"
#include "daemon/attach/native_heap_follower.h"

namespace memprofd {

class NativeHeapByProbes final : public NativeHeapFollower {
 public:
  using Clock = std::chrono::steady_clock;

  // On any thread. Finds the program's malloc. If its memory cannot be followed, that is no error:
  // why_not() has the reason.
  NativeHeapByProbes(const Target& target, const AttachOptions& options);

  // Configuration of the kernel's side; nullopt if it is not needed.
  std::optional<MallocProbesConfig> config() const;

  // Call this once the kernel's side is loaded with config(); can be repeated.
  void begin(KernelSide& kernel);

  double rate() const override;
  bool follows() const override { return state_ == State::kFollowing; }
  std::string why_not() const override { return why_not_; }
  void watch() override;

  void begin_detach();
  bool detached() { return probes_ == nullptr || probes_->removed(); }

 private:
  enum class State { kIdle, kCounting, kFollowing, kOff };

  void find_places(const Target& target);
  void end(std::string why);
  void end_counting();

  std::uint64_t interval_;
  std::uint64_t max_hits_;
  std::int64_t domain_state_offset_ = 0;
  std::optional<MallocSites> places_;
  std::string why_not_;
  State state_ = State::kIdle;
  Clock::time_point counted_since_;
  MallocProbes* probes_ = nullptr;  // owned by the kernel's side
};

}  // namespace memprofd
