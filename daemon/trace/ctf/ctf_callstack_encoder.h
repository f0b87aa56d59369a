// SPDX-License-Identifier: Apache-2.0
// Callstacks of one domain as codewords.
//
// A table of 16,384 buckets holds codes, and for each bucket the one that
// followed it last time. A codeword names a bucket; the frames behind it cost
// nothing as long as each is in the bucket that followed last time:
//
//   main run f g   ->  miss 7 main, miss 3 run, miss 9 f, miss 4 g   (40 bytes)
//   main run f g   ->  common prefix 4, nothing                      (0 bytes)
//   main x         ->  common prefix 1, miss 2 x                     (10 bytes)
//   main run f g   ->  common prefix 1, hit 3 with 2 predictions     (3 bytes)
//
// A code may be in one of two buckets, chosen by two hashes; a new code takes the least recently
// used one. Only the writer needs this rule, because readers just follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/trace/ctf/ctf_bytes.h"
#include "daemon/trace/ctf/ctf_packet.h"

namespace memprofd::ctf {

class CallstackEncoder {
 public:
  // A callstack whose codewords would exceed kMaxCallstackBytes keeps the outermost frames that fit
  // and always these innermost ones, with kCutCode between them: the next callstack shares the
  // outer frames, and the innermost ones show the allocation.
  static constexpr std::size_t kInnermostKept = 64;

  CallstackEncoder();

  // Number of leading frames that are the same in the previous callstack, as readers know it.
  std::size_t common_prefix(std::span<const std::uint64_t> callstack) const;
  // An upper bound for the bytes of this number of frames.
  static std::size_t max_bytes(std::size_t frames);

  // Writes codewords for the frames behind the first common_prefix; returns their number. Calls
  // before_code with each code that is written in full.
  std::size_t put(ByteWriter& out, std::span<const std::uint64_t> callstack,
                  std::size_t common_prefix, absl::FunctionRef<void(std::uint64_t)> before_code);

  // Returns the verifier for the header of the packet that begins now. Alternates between a recent
  // code, which reveals a lost packet, and any code, which reveals a damaged one.
  Verifier next_verifier();

  // Continues without relying on anything that readers might have missed.
  void forget();

 private:
  // A codeword that is not written yet because predictions may still extend it.
  struct Run {
    bool open = false;
    std::uint16_t bucket = 0;
    std::uint16_t at = 0;
    std::uint8_t predictions = 0;
  };

  void put_code(ByteWriter& out, std::uint64_t code,
                absl::FunctionRef<void(std::uint64_t)> before_code);
  bool extend_run(std::uint64_t code);
  void close_run(ByteWriter& out);
  void put_miss(ByteWriter& out, std::uint16_t bucket, std::uint64_t code);
  void follow(std::uint16_t bucket);
  bool can_verify(std::size_t bucket) const;

  std::vector<std::uint64_t> codes_;
  std::vector<std::uint16_t> next_;
  std::vector<std::uint32_t> last_use_;
  std::vector<std::uint64_t> last_;
  // Within one callstack.
  Run run_;
  std::uint16_t previous_ = 0;
  bool previous_is_new_ = false;
  std::size_t n_codewords_ = 0;

  std::uint32_t uses_ = 0;
  std::uint16_t learnt_ = 0;
  std::uint16_t verified_ = 0;
  bool verify_learnt_ = false;
};

}  // namespace memprofd::ctf
