// SPDX-License-Identifier: Apache-2.0
// The two clocks in use, in nanoseconds.
#pragma once

#include <cstdint>
#include <ctime>

namespace memprofd {

inline constexpr double kNsPerSecond = 1e9;

inline std::uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}
// The clock used for every event.
inline std::uint64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
// Time since the Unix epoch, only for display.
inline std::uint64_t realtime_ns() { return clock_ns(CLOCK_REALTIME); }

// CPU time of all threads of a process; 0 if there is no such process.
inline std::uint64_t process_cpu_ns(int pid) {
  clockid_t clock{};
  return clock_getcpuclockid(pid, &clock) == 0 ? clock_ns(clock) : 0;
}

}  // namespace memprofd
