// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/tick_clock.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "daemon/util/fd.h"

namespace memprofd {
namespace {

constexpr std::chrono::milliseconds kShortestSpan{5};
constexpr int kTickTries = 32;

std::uint64_t ticks_now() {
#ifdef __x86_64__
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

std::uint64_t clock_ns() {
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(now.count());
}

// Reads the kernel's own conversion factor, which is constant until the next boot.
std::optional<double> ns_per_tick_of_kernel() {
  perf_event_attr event{};
  event.type = PERF_TYPE_SOFTWARE;
  event.size = sizeof event;
  event.config = PERF_COUNT_SW_DUMMY;
  event.disabled = 1;
  event.exclude_kernel = 1;
  const UniqueFd fd(
      static_cast<int>(::syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)));
  if (!fd) return std::nullopt;
  const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* page = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (page == MAP_FAILED) return std::nullopt;
  const auto& head = *static_cast<const perf_event_mmap_page*>(page);
  std::optional<double> rate;
  if (head.cap_user_time != 0 && head.time_mult != 0) {
    rate = std::ldexp(static_cast<double>(head.time_mult), -static_cast<int>(head.time_shift));
  }
  ::munmap(page, bytes);
  return rate;
}

// Reads both clocks at one moment: keeps the reading that took the shortest time.
TickMoment read_both() {
  TickMoment best;
  std::uint64_t shortest = ~std::uint64_t{0};
  for (int i = 0; i < kTickTries; ++i) {
    const std::uint64_t before = ticks_now(), ns = clock_ns(), took = ticks_now() - before;
    if (took >= shortest) continue;
    shortest = took;
    best = {.ticks = before + took / 2, .ns = ns};
  }
  return best;
}

double measured_ns_per_tick() {
  const TickMoment first = read_both();
  std::this_thread::sleep_for(kShortestSpan);
  const TickMoment last = read_both();
  const std::uint64_t ticks = std::max<std::uint64_t>(last.ticks - first.ticks, 1);
  return static_cast<double>(last.ns - first.ns) / static_cast<double>(ticks);
}

double ns_per_tick() {
#ifdef __x86_64__
  if (const auto rate = ns_per_tick_of_kernel()) return *rate;
#endif
  return measured_ns_per_tick();
}

}  // namespace

// Fixed at the first call: a rate that improves with time would make sums of time fall, which
// readers of counters take for a restart.
TickMoment tick_now() {
  static const double rate = ns_per_tick();
  return {.ticks = ticks_now(), .ns = clock_ns(), .ns_per_tick = rate};
}

}  // namespace memprofd
