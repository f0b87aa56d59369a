// SPDX-License-Identifier: Apache-2.0
// Decodes the records and callstacks of a packed batch (agent-lib/include/memprof_agent_abi.h).
// Accepts arbitrary words and allocates nothing in steady state.
//
//   PackedDecoder decoder;
//   decoder.begin(head, words);
//   while (const auto record = decoder.next()) {
//     ... is_alloc(*record): decoder.stack_hash(), and decoder.callstack() when it is new
//   }
//
// Callstacks of a batch share outer frames. They are stored outermost first, with the hash of each
// prefix, so that a callstack costs only its new frames:
//
//   frames_   main    serve   handle  List.map        hashes_[n]: of the n outermost
//   hashes_ 0       1       2       3         4
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/model/callstack.h"
#include "daemon/util/ids.h"

namespace memprofd {

class PackedDecoder {
 public:
  // words must stay valid until the last next().
  void begin(const memprof_packed_head& head, std::span<const std::uint32_t> words);
  // Returns nullopt at the end and at the first malformed record. Records must still be checked
  // with valid_record().
  std::optional<memprof_record> next();

  // The stack of the allocation that next() returned last. The hash is 0 only if there are no
  // frames.
  StackHash stack_hash() const;
  std::uint32_t frames() const { return depth_; }
  // Points into this object; valid until the next call.
  CallstackView callstack();

 private:
  using Words = std::span<const std::uint32_t>;

  bool take_threads();
  bool take_size(bool wide, memprof_record& record);
  bool take_callstack(std::uint32_t head);
  bool take_frames(std::uint32_t shared, std::uint32_t added);
  std::optional<memprof_record> alloc(std::uint32_t head, memprof_record record);
  std::optional<memprof_record> follow(std::uint32_t head, memprof_record record);

  memprof_packed_head head_{};
  Words words_;
  std::uint64_t last_sample_ = 0;
  std::uint32_t tid_ = 0;
  std::vector<std::uint64_t> frames_;
  std::vector<std::uint64_t> hashes_{0};
  std::uint32_t depth_ = 0;
  bool debuginfo_ = false;
  bool cut_ = false;
  std::vector<std::uint64_t> entries_;  // entries of callstack()
};

}  // namespace memprofd
