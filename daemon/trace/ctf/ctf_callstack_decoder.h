// SPDX-License-Identifier: Apache-2.0
// The counterpart of ctf_callstack_encoder.h, for files of any writer. After a loss the decoder no
// longer trusts its table. As the file repeats entries (a full code, a successor, a verifier), they
// become known again, and callstacks become readable one by one, and all of them when the writer
// starts afresh.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/trace/ctf/ctf_bytes.h"
#include "daemon/trace/ctf/ctf_packet.h"

namespace memprofd::ctf {

class CallstackDecoder {
 public:
  // Longer ones count as lost: a packet of 32 KB can claim millions of frames.
  static constexpr std::size_t kMaxFrames = std::size_t{1} << 20;

  enum class Result {
    kWhole,
    kCut,   // innermost frames were left out by the writer
    kLost,  // depends on lost data
  };

  CallstackDecoder();

  // Codewords come from get_event. Calls on_code with each code written in full.
  Result get(std::span<const std::byte> codewords, std::size_t n_codewords,
             std::uint64_t common_prefix, absl::FunctionRef<void(std::uint64_t)> on_code);
  // The callstack of the last get(), unless it was lost; valid until the next one.
  std::span<const std::uint64_t> callstack() const { return callstack_; }

  // Returns false if the table differs from the writer's, and forgets it then.
  bool check(const Verifier& verifier);

  void forget();

 private:
  static constexpr std::uint32_t kNever = 0;
  static constexpr std::uint32_t kFirstAge = 1;

  bool knows_code(std::uint16_t bucket) const { return code_since_[bucket] == codes_age_; }
  bool knows_next(std::uint16_t bucket) const { return next_since_[bucket] == nexts_age_; }
  void set_code(std::uint16_t bucket, std::uint64_t code);
  void set_next(std::uint16_t bucket, std::uint16_t next);
  void add(std::uint16_t bucket);
  // Returns whether the end of the run is known, and advances `at` to it.
  bool follow(std::uint16_t& at, unsigned predictions);
  void decode(ByteReader& in, std::size_t n_codewords,
              absl::FunctionRef<void(std::uint64_t)> on_code);

  // An entry is known if it was set in the current age.
  std::vector<std::uint64_t> codes_;
  std::vector<std::uint32_t> code_since_;
  std::vector<std::uint16_t> nexts_;
  std::vector<std::uint32_t> next_since_;
  std::uint32_t codes_age_ = kFirstAge;
  std::uint32_t nexts_age_ = kFirstAge;
  bool forgot_ = false;

  std::vector<std::uint64_t> callstack_;
  bool exact_ = true;       // callstack_ is as complete as the writer's
  bool cut_ = false;        // the writer had more, but did not write it
  bool collecting_ = true;  // frames are still known
};

}  // namespace memprofd::ctf
