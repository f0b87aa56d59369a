// SPDX-License-Identifier: Apache-2.0
// Coverage for libFuzzer: gcc calls a function in each basic block (-fsanitize-coverage=trace-pc),
// while libFuzzer reads counters. The linker redirects the calls to us (--wrap), because
// libFuzzer's own function reports that it is unsupported.
#include <cstdint>

namespace {

__attribute__((section("__libfuzzer_extra_counters"))) std::uint8_t counters[1u << 16];
thread_local std::uintptr_t before;

}  // namespace

// Counts each transition between two blocks.
extern "C" void __wrap___sanitizer_cov_trace_pc();
extern "C" void __wrap___sanitizer_cov_trace_pc() {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  std::uint8_t& counter = counters[((here ^ before) * 0x9E3779B97F4A7C15u) >> 48];
  if (counter != 0xff) ++counter;
  before = here >> 1;
}

// gcc also reports comparisons of floating-point numbers, which libFuzzer does not support.
extern "C" void __sanitizer_cov_trace_cmpf(float, float);
extern "C" void __sanitizer_cov_trace_cmpf(float, float) {}
extern "C" void __sanitizer_cov_trace_cmpd(double, double);
extern "C" void __sanitizer_cov_trace_cmpd(double, double) {}
