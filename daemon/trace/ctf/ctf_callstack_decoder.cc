// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/ctf/ctf_callstack_decoder.h"

#include <algorithm>

namespace memprofd::ctf {
namespace {

// Some writers stop here, but later refer to the whole callstack.
constexpr std::size_t kCutBytes = kMaxCallstackBytes - 32;

}  // namespace

CallstackDecoder::CallstackDecoder()
    : codes_(kCacheBuckets),
      code_since_(kCacheBuckets, kNever),
      nexts_(kCacheBuckets),
      next_since_(kCacheBuckets, kFirstAge) {}

void CallstackDecoder::forget() {
  ++codes_age_;
  ++nexts_age_;
  forgot_ = true;
  callstack_.clear();
  exact_ = false;
  cut_ = false;
}

void CallstackDecoder::set_code(std::uint16_t bucket, std::uint64_t code) {
  codes_[bucket] = code;
  code_since_[bucket] = codes_age_;
}

void CallstackDecoder::set_next(std::uint16_t bucket, std::uint16_t next) {
  nexts_[bucket] = next;
  next_since_[bucket] = nexts_age_;
}

bool CallstackDecoder::check(const Verifier& verifier) {
  if (verifier.bucket == kNoVerifier) return true;
  const std::uint16_t bucket = verifier.bucket;
  // Until data is lost, a bucket that was never set holds zero.
  const bool code_differs = (knows_code(bucket) || !forgot_) && codes_[bucket] != verifier.code;
  const bool next_differs = knows_next(bucket) && nexts_[bucket] != verifier.next;
  const bool agrees = !code_differs && !next_differs;
  if (!agrees) forget();
  if (forgot_) {
    set_code(bucket, verifier.code);
    set_next(bucket, verifier.next);
  }
  return agrees;
}

void CallstackDecoder::add(std::uint16_t bucket) {
  if (!knows_code(bucket) || callstack_.size() >= kMaxFrames) collecting_ = false;
  if (collecting_) callstack_.push_back(codes_[bucket]);
}

bool CallstackDecoder::follow(std::uint16_t& at, unsigned predictions) {
  for (; predictions > 0; --predictions) {
    if (!knows_next(at)) {
      collecting_ = false;
      return false;
    }
    at = nexts_[at];
    add(at);
  }
  return true;
}

void CallstackDecoder::decode(ByteReader& in, std::size_t n_codewords,
                              absl::FunctionRef<void(std::uint64_t)> on_code) {
  std::uint16_t previous = 0;
  bool knows_previous = true;
  for (; n_codewords > 0; --n_codewords) {
    const auto word = in.get<std::uint16_t>();
    const auto bucket = static_cast<std::uint16_t>(word >> 2);
    const unsigned tag = word & 3u;
    // The writer changed the successor of a bucket that is unknown here: it may be any bucket.
    if (!knows_previous) ++nexts_age_;
    if (knows_previous) set_next(previous, bucket);
    previous = bucket;
    knows_previous = true;
    if (tag == 3) {
      const auto code = in.get<std::uint64_t>();
      set_code(bucket, code);
      on_code(code);
      add(bucket);
    } else {
      add(bucket);
      knows_previous = follow(previous, tag == 2 ? in.get<std::uint8_t>() : tag);
    }
  }
}

CallstackDecoder::Result CallstackDecoder::get(std::span<const std::byte> codewords,
                                               std::size_t n_codewords, std::uint64_t common_prefix,
                                               absl::FunctionRef<void(std::uint64_t)> on_code) {
  ByteReader in(codewords);
  if (common_prefix <= callstack_.size()) {
    callstack_.resize(common_prefix);
    collecting_ = true;
    decode(in, n_codewords, on_code);
    exact_ = collecting_;
    cut_ = exact_ && codewords.size() >= kCutBytes;
    return exact_ ? Result::kWhole : Result::kLost;
  }
  collecting_ = false;
  decode(in, n_codewords, on_code);
  if (exact_ && cut_) return Result::kCut;
  // The known part of the previous callstack is shared, unless the number is wrong.
  if (exact_) callstack_.clear();
  exact_ = false;
  return Result::kLost;
}

}  // namespace memprofd::ctf
