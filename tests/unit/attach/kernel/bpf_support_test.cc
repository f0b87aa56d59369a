// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/bpf_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace memprofd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A message in libbpf's format.
std::string message(const std::string& log) {
  return "libbpf: prog 'capture': -- BEGIN PROG LOAD LOG --\n" + log + "-- END PROG LOAD LOG --\n";
}

TEST(VerifierReason, IsAtTheEndOfItsLog) {
  EXPECT_THAT(verifier_reason(message("0: R1=ctx(off=0,imm=0) R10=fp0\n; int capture(...)\n"
                                      "0: (bf) r6 = r1\n1: (85) call bpf_loop#181\n"
                                      "invalid func unknown#181\nprocessed 2 insns\n")),
              ElementsAre("0: (bf) r6 = r1", "1: (85) call bpf_loop#181",
                          "invalid func unknown#181", "processed 2 insns"));
  EXPECT_THAT(verifier_reason(message("one line\n")), ElementsAre("one line"));
}

TEST(VerifierReason, IsEmptyWhenTheVerifierGivesNone) {
  EXPECT_THAT(verifier_reason(message("")), IsEmpty());
  EXPECT_THAT(verifier_reason("libbpf: failed to load object 'memprof_bpf'\n"), IsEmpty());
  EXPECT_THAT(verifier_reason(""), IsEmpty());
}

// A message that was cut has no end.
TEST(VerifierReason, IsTakenFromATruncatedLog) {
  EXPECT_THAT(verifier_reason("-- BEGIN PROG LOAD LOG --\nfirst\nseco"),
              ElementsAre("first", "seco"));
}

}  // namespace
}  // namespace memprofd
