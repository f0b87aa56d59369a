// SPDX-License-Identifier: Apache-2.0
// Where the code under test has been, for libFuzzer: gcc calls a function in each basic block
// (-fsanitize-coverage=trace-pc), libFuzzer looks at counters. The linker gives us the calls
// (--wrap), as libFuzzer has such a function too, which says that it is not supported.
#include <cstdint>

namespace {

__attribute__((section("__libfuzzer_extra_counters"))) std::uint8_t counters[1u << 16];
thread_local std::uintptr_t before;

}  // namespace

// A way from one block to the next one counts.
extern "C" void __wrap___sanitizer_cov_trace_pc();
extern "C" void __wrap___sanitizer_cov_trace_pc() {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  std::uint8_t& counter = counters[((here ^ before) * 0x9E3779B97F4A7C15u) >> 48];
  if (counter != 0xff) ++counter;
  before = here >> 1;
}

// gcc tells of comparisons of floating-point numbers, too, which libFuzzer does not know.
extern "C" void __sanitizer_cov_trace_cmpf(float, float);
extern "C" void __sanitizer_cov_trace_cmpf(float, float) {}
extern "C" void __sanitizer_cov_trace_cmpd(double, double);
extern "C" void __sanitizer_cov_trace_cmpd(double, double) {}
