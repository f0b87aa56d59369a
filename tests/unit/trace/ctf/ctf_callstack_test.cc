// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "daemon/trace/ctf/ctf_callstack_decoder.h"
#include "daemon/trace/ctf/ctf_callstack_encoder.h"

namespace memprofd::ctf {
namespace {

using Callstack = std::vector<std::uint64_t>;
using Result = CallstackDecoder::Result;

class CtfCallstack : public ::testing::Test {
 protected:
  // Bytes that it took.
  std::size_t put(const Callstack& callstack) {
    out_.clear();
    new_codes_.clear();
    prefix_ = encoder_.common_prefix(callstack);
    n_codewords_ = encoder_.put(out_, callstack, prefix_,
                                [this](std::uint64_t code) { new_codes_.push_back(code); });
    return out_.size();
  }
  Result get() {
    Callstack new_codes;
    const Result result =
        decoder_.get(out_.bytes(), n_codewords_, prefix_,
                     [&new_codes](std::uint64_t code) { new_codes.push_back(code); });
    EXPECT_EQ(new_codes, new_codes_);
    decoded_.assign(decoder_.callstack().begin(), decoder_.callstack().end());
    return result;
  }
  std::size_t put_and_get(const Callstack& callstack) {
    const std::size_t bytes = put(callstack);
    EXPECT_EQ(get(), Result::kWhole);
    EXPECT_EQ(decoded_, callstack);
    return bytes;
  }
  bool check() { return decoder_.check(encoder_.next_verifier()); }

  std::array<std::byte, kMaxPacketBytes> buffer_{};
  ByteWriter out_{buffer_};
  CallstackEncoder encoder_;
  CallstackDecoder decoder_;
  std::uint64_t prefix_ = 0;
  std::size_t n_codewords_ = 0;
  Callstack new_codes_, decoded_;
};

constexpr std::size_t kMiss = 10, kHit = 2, kRun = 3;

Callstack range(std::uint64_t from, std::size_t count) {
  Callstack callstack(count);
  std::iota(callstack.begin(), callstack.end(), from);
  return callstack;
}

TEST_F(CtfCallstack, TheExampleOfTheHeader) {
  EXPECT_EQ(put_and_get({1, 2, 3, 4}), 4 * kMiss);
  EXPECT_EQ(new_codes_, (Callstack{1, 2, 3, 4}));
  EXPECT_EQ(put_and_get({1, 2, 3, 4}), 0u);
  EXPECT_EQ(prefix_, 4u);
  EXPECT_EQ(put_and_get({1, 9}), kMiss);
  EXPECT_EQ(put_and_get({1, 2, 3, 4}), kRun);
  EXPECT_EQ(prefix_, 1u);
  EXPECT_EQ(n_codewords_, 1u);
  EXPECT_TRUE(new_codes_.empty());
}

TEST_F(CtfCallstack, HitsWithNoneAndOnePrediction) {
  put_and_get({1, 2, 3});
  EXPECT_EQ(put_and_get({3}), kHit);
  EXPECT_EQ(put_and_get({2, 3}), kHit) << "one prediction is in the tag";
  EXPECT_EQ(put_and_get({1, 3}), 2 * kHit) << "after 1 came 2";
  EXPECT_EQ(put_and_get({}), 0u);
  EXPECT_EQ(put_and_get({1, 3}), kHit);
}

TEST_F(CtfCallstack, ARunOfMoreThan255Predictions) {
  const Callstack deep(1000, 7);
  // The first 7 is new, the second is found, and from then on 7 follows 7.
  EXPECT_EQ(put_and_get(deep), kMiss + 4 * kRun);
  put_and_get({1});
  EXPECT_EQ(put_and_get(deep), 4 * kRun);
}

TEST_F(CtfCallstack, MoreCodesThanBuckets) {
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    Callstack callstack;
    for (std::uint64_t n = random() % 60; n > 0; --n) callstack.push_back(random() % 40'000);
    put_and_get(callstack);
    if (i % 50 == 0) {
      EXPECT_TRUE(check());
    }
  }
}

TEST_F(CtfCallstack, LongOnesKeepBothEnds) {
  const Callstack callstack = range(1, 5000);
  EXPECT_LE(put(callstack), kMaxCallstackBytes);
  EXPECT_GT(out_.size(), kMaxCallstackBytes - 100);
  ASSERT_EQ(get(), Result::kWhole);
  const std::size_t kept = CallstackEncoder::kInnermostKept;
  const auto cut = std::find(decoded_.begin(), decoded_.end(), kCutCode);
  ASSERT_EQ(static_cast<std::size_t>(decoded_.end() - cut), kept + 1);
  EXPECT_TRUE(std::equal(decoded_.begin(), cut, callstack.begin()));
  EXPECT_TRUE(std::equal(cut + 1, decoded_.end(), callstack.end() - kept));
  EXPECT_GT(decoded_.size(), 400u);

  const Callstack first = decoded_;
  put(callstack);
  ASSERT_EQ(get(), Result::kWhole);
  EXPECT_GT(decoded_.size(), first.size()) << "what is known already costs nothing";
  for (int i = 0; i < 20; ++i) put(callstack), get();
  EXPECT_EQ(decoded_, callstack);
}

TEST_F(CtfCallstack, NeverMoreThanTheBound) {
  std::mt19937 random(5);
  for (const std::size_t frames : {0, 1, 63, 64, 65, 342, 343, 407, 408, 409, 410, 3000}) {
    Callstack callstack;
    for (std::size_t i = 0; i < frames; ++i) callstack.push_back(random());
    EXPECT_LE(put(callstack), CallstackEncoder::max_bytes(frames)) << frames;
    EXPECT_LE(out_.size(), kMaxCallstackBytes) << frames;
    EXPECT_EQ(get(), Result::kWhole);
  }
}

TEST_F(CtfCallstack, AfterALossNothingIsWrong) {
  std::mt19937 random(11);
  const auto some = [&random] {
    Callstack callstack = {1};
    for (std::uint64_t n = random() % 12; n > 0; --n) callstack.push_back(random() % 50);
    return callstack;
  };
  int known = 0, lost = 0;
  for (int i = 0; i < 4000; ++i) {
    const Callstack callstack = some();
    if (i % 1000 == 700) encoder_.forget();
    put(callstack);
    if (i % 500 == 499) {
      decoder_.forget();
      continue;
    }
    const Result result = get();
    ASSERT_NE(result, Result::kCut);
    if (result == Result::kWhole) {
      ASSERT_EQ(decoded_, callstack) << i;
    }
    ++(result == Result::kWhole ? known : lost);
    if (i % 1000 >= 700) {
      EXPECT_EQ(result, Result::kWhole) << "the writer has started afresh; " << i;
    }
  }
  EXPECT_GT(lost, 500);
  EXPECT_GT(known, 1500);
}

TEST_F(CtfCallstack, AllIsKnownAfterTheWriterStartsAfresh) {
  put_and_get({1, 2, 3});
  decoder_.forget();
  put({1, 2, 4});
  EXPECT_EQ(get(), Result::kLost);
  encoder_.forget();
  EXPECT_EQ(put_and_get({1, 2, 3}), 3 * kMiss);
  EXPECT_EQ(put_and_get({2, 3}), kHit);
}

TEST_F(CtfCallstack, TheVerifierShowsAnotherTable) {
  EXPECT_EQ(encoder_.next_verifier().bucket, kNoVerifier);
  put_and_get({1, 2, 3});
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(check());
  put({1, 5, 6});  // not read
  EXPECT_FALSE(check() && check());
  put({2, 3});
  EXPECT_EQ(get(), Result::kLost) << "nothing is trusted any more";
}

TEST_F(CtfCallstack, APrefixLongerThanTheLastCallstack) {
  put_and_get({1, 2, 3});
  const auto nothing = [](std::uint64_t) {};
  EXPECT_EQ(decoder_.get({}, 0, 4, nothing), Result::kLost);
  EXPECT_EQ(decoder_.get({}, 0, 2, nothing), Result::kLost) << "2 of what?";
  EXPECT_EQ(decoder_.get({}, 0, 0, nothing), Result::kWhole);
}

// Other writers truncate the innermost frames and later refer to the omitted ones.
TEST_F(CtfCallstack, APrefixLongerThanACutCallstack) {
  for (std::uint64_t i = 0; i < 408; ++i) {
    out_.put(static_cast<std::uint16_t>(i << 2 | 3));
    out_.put<std::uint64_t>(1000 + i);
  }
  const auto nothing = [](std::uint64_t) {};
  EXPECT_EQ(decoder_.get(out_.bytes(), 408, 0, nothing), Result::kWhole);
  EXPECT_EQ(decoder_.get({}, 0, 5000, nothing), Result::kCut);
  EXPECT_EQ(decoder_.callstack().size(), 408u);
  EXPECT_EQ(decoder_.get({}, 0, 3, nothing), Result::kWhole);
  EXPECT_EQ(decoder_.callstack().size(), 3u);
}

TEST_F(CtfCallstack, FramesAreBounded) {
  put_and_get({7, 7});
  const auto nothing = [](std::uint64_t) {};
  // 255 more with each codeword, and again with each callstack.
  std::size_t largest = 0;
  for (int round = 0; round < 4; ++round) {
    out_.clear();
    const auto bucket = encoder_.next_verifier();
    ASSERT_NE(bucket.bucket, kNoVerifier);
    for (int i = 0; i < 2000; ++i) {
      out_.put(static_cast<std::uint16_t>(bucket.bucket << 2 | 2));
      out_.put<std::uint8_t>(255);
    }
    decoder_.get(out_.bytes(), 2000, decoder_.callstack().size(), nothing);
    largest = std::max(largest, decoder_.callstack().size());
  }
  EXPECT_EQ(largest, CallstackDecoder::kMaxFrames);
}

}  // namespace
}  // namespace memprofd::ctf
