// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/ctf/ctf_callstack_encoder.h"

#include <algorithm>

namespace memprofd::ctf {
namespace {

constexpr std::uint64_t kNoCode = ~std::uint64_t{0};
constexpr std::uint16_t kNoBucket = 0xFFFF;
constexpr std::uint8_t kMaxPredictions = 255;
constexpr std::size_t kMaxCodewordBytes = 2 + 8;
// Room for the outer frames that are always kept, the truncation mark and the current codeword.
constexpr std::size_t kOuterBytes =
    kMaxCallstackBytes - (CallstackEncoder::kInnermostKept + 3) * kMaxCodewordBytes;

constexpr std::uint16_t top_bits(std::uint64_t value) {
  return static_cast<std::uint16_t>(value >> (64 - kCacheBits));
}
std::uint16_t first_bucket(std::uint64_t code) { return top_bits(code * 0x9E3779B97F4A7C15u); }
std::uint16_t second_bucket(std::uint64_t code) {
  return top_bits((code ^ (code >> 29)) * 0xD6E8FEB86659FD93u);
}

}  // namespace

CallstackEncoder::CallstackEncoder()
    : codes_(kCacheBuckets), next_(kCacheBuckets), last_use_(kCacheBuckets) {
  forget();
}

void CallstackEncoder::forget() {
  std::fill(codes_.begin(), codes_.end(), kNoCode);
  std::fill(next_.begin(), next_.end(), kNoBucket);
  std::fill(last_use_.begin(), last_use_.end(), 0u);
  last_.clear();
  uses_ = 0;
}

std::size_t CallstackEncoder::common_prefix(std::span<const std::uint64_t> callstack) const {
  const auto [end, unused] =
      std::mismatch(callstack.begin(), callstack.end(), last_.begin(), last_.end());
  return static_cast<std::size_t>(end - callstack.begin());
}

std::size_t CallstackEncoder::max_bytes(std::size_t frames) {
  return std::min(kMaxCallstackBytes / kMaxCodewordBytes, frames) * kMaxCodewordBytes +
         kMaxCodewordBytes;
}

std::size_t CallstackEncoder::put(ByteWriter& out, std::span<const std::uint64_t> callstack,
                                  std::size_t common_prefix,
                                  absl::FunctionRef<void(std::uint64_t)> before_code) {
  last_.resize(common_prefix);
  run_ = {};
  previous_ = 0;
  previous_is_new_ = false;
  n_codewords_ = 0;
  ++uses_;
  const std::size_t outer_end = out.size() + kOuterBytes;
  bool cut = false;
  for (std::size_t i = common_prefix; i < callstack.size(); ++i) {
    if (!cut && out.size() > outer_end && callstack.size() - i > kInnermostKept) {
      cut = true;
      put_code(out, kCutCode, before_code);
      i = callstack.size() - kInnermostKept;
    }
    put_code(out, callstack[i], before_code);
  }
  close_run(out);
  return n_codewords_;
}

void CallstackEncoder::put_code(ByteWriter& out, std::uint64_t code,
                                absl::FunctionRef<void(std::uint64_t)> before_code) {
  last_.push_back(code);
  if (extend_run(code)) return;
  close_run(out);
  const std::uint16_t first = first_bucket(code), second = second_bucket(code);
  if (codes_[first] == code || codes_[second] == code) {
    const std::uint16_t bucket = codes_[first] == code ? first : second;
    follow(bucket);
    previous_is_new_ = false;
    run_ = {.open = true, .bucket = bucket, .at = bucket};
    return;
  }
  before_code(code);
  put_miss(out, last_use_[first] <= last_use_[second] ? first : second, code);
}

bool CallstackEncoder::extend_run(std::uint64_t code) {
  if (!run_.open || run_.predictions == kMaxPredictions) return false;
  const std::uint16_t bucket = next_[run_.at];
  if (bucket == kNoBucket || codes_[bucket] != code) return false;
  last_use_[bucket] = uses_;
  run_.at = bucket;
  ++run_.predictions;
  return true;
}

void CallstackEncoder::close_run(ByteWriter& out) {
  if (!run_.open) return;
  const unsigned tag = std::min<unsigned>(run_.predictions, 2);
  out.put(static_cast<std::uint16_t>(run_.bucket << 2 | tag));
  if (tag == 2) out.put(run_.predictions);
  previous_ = run_.at;
  run_.open = false;
}

void CallstackEncoder::put_miss(ByteWriter& out, std::uint16_t bucket, std::uint64_t code) {
  follow(bucket);
  codes_[bucket] = code;
  out.put(static_cast<std::uint16_t>(bucket << 2 | 3));
  out.put(code);
  previous_ = bucket;
  previous_is_new_ = true;
}

void CallstackEncoder::follow(std::uint16_t bucket) {
  next_[previous_] = bucket;
  last_use_[bucket] = uses_;
  ++n_codewords_;
  if (previous_is_new_) learnt_ = previous_;
}

bool CallstackEncoder::can_verify(std::size_t bucket) const {
  return codes_[bucket] != kNoCode && next_[bucket] != kNoBucket;
}

Verifier CallstackEncoder::next_verifier() {
  verify_learnt_ = !verify_learnt_;
  std::uint16_t bucket = learnt_;
  if (!verify_learnt_) {
    std::size_t steps = 0;
    do {
      verified_ = (verified_ + 1) % kCacheBuckets;
    } while (!can_verify(verified_) && ++steps < kCacheBuckets);
    bucket = verified_;
  }
  if (!can_verify(bucket)) return {};
  return {.bucket = bucket, .next = next_[bucket], .code = codes_[bucket]};
}

}  // namespace memprofd::ctf
