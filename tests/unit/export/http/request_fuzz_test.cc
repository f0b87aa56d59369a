// SPDX-License-Identifier: Apache-2.0
// The fuzz target under pseudo-random mutations of requests as they are made, the same in every
// run.
#include <gtest/gtest.h>

#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput request_fuzz_one_input
#include "tests/fuzz/request_fuzz.cc"
#include "tests/kit/fuzzing.h"

namespace memprofd {
namespace {

TEST(RequestFuzz, MutatedParameters) {
  const std::vector<std::string> seeds{
      std::string("\0", 1) +
          "pid=4242&order=allocated&limit=10&pattern=^Sess&require=Request&forbid=C",
      std::string("\0", 1) + "pid=4242&last_seconds=300&group_by=callstack&hide=Server&fate=dead",
      std::string("\0", 1) +
          "pid=4242&min_size_bytes=16&heap=major&threads=1&domains=0&source=custom",
      "\1base.pid=4242&other.pid=4242&order=allocated&limit=7&per_second=true",
      "\2pid=4242&function=handle&order=live&min_lifetime_seconds=0.5&limit=3",
      "\3pid=4242&limit=5&group_by=function",
      "\4pid=4242&begin_unix_ns=1&end_unix_ns=1700000300000000000&points=7&measure=live",
  };
  for (const std::string& seed : seeds) {
    EXPECT_TRUE(request_fuzz::ask(seed[0], request_fuzz::parameters_of(seed.substr(1)))) << seed;
  }
  fuzz(seeds, FuzzRounds(2'000, 200'000), LLVMFuzzerTestOneInput);
}

}  // namespace
}  // namespace memprofd
