// SPDX-License-Identifier: Apache-2.0
// The fuzz target under pseudo-random mutations of whole files, the same in every run.
#include <fstream>
#include <iterator>

#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput state_fuzz_one_input
#include "tests/fuzz/state_fuzz.cc"
#include "tests/kit/fuzzing.h"
#include "tests/kit/stored_target.h"

namespace memprofd {
namespace {

class StateFuzz : public StoredTargetTest {
 protected:
  std::string file() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(StateFuzz, MutatedFiles) {
  std::vector<std::string> seeds;
  for (int second = 0; second < 40; ++second) {
    program_.run_second();
    if (second % 4 != 3) continue;
    write(snapshot());
    if (second % 12 == 11) seeds.push_back(file());
  }
  for (std::string& seed : seeds) {
    const std::string whole = seed;
    state_fuzz::put_record_checksums(seed);
    ASSERT_EQ(whole, seed) << "the form of the file is another";
  }
  fuzz(seeds, FuzzRounds(1'000, 200'000), LLVMFuzzerTestOneInput, state_fuzz::kLogHeadBytes);
}

}  // namespace
}  // namespace memprofd
