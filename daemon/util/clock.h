// SPDX-License-Identifier: Apache-2.0
// Nanoseconds of the two clocks in use.
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
// The clock of every event.
inline std::uint64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
// Since the Unix epoch; only for people.
inline std::uint64_t realtime_ns() { return clock_ns(CLOCK_REALTIME); }

// CPU time of a process, all its threads; 0 when there is none.
inline std::uint64_t process_cpu_ns(int pid) {
  clockid_t clock{};
  return clock_getcpuclockid(pid, &clock) == 0 ? clock_ns(clock) : 0;
}

}  // namespace memprofd
