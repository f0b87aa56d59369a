// SPDX-License-Identifier: Apache-2.0
// Allocations whose records were lost, and those that count in their place.
//
// How many were lost is known: the agent numbers the sampled blocks of a buffer without gaps. What
// they were is not. Each is taken to be like one that is seen soon after, which counts for both: as
// if it had been sampled at half the rate, that is with half the chance to be seen. A total is then
// what it would be without the loss, but for chance, which makes it less sure: m samples that count
// for themselves have a variance of m, one that counts for m has m^2.
//
//   numbers seen  1 2 3 | 7 8 9 10 11      4, 5, 6 were lost
//   count for     1 1 1   2 2 2  1  1      8 samples seen, 11 counted
//
// No sample counts for more than it must: after one hole each counts for two, so that what stands
// for it extends as far as the hole did, over the same phases of the program. Only when more is
// lost before that is made up for each counts for four, then for eight ...
//
// Which of the lost records were allocations is told by the next allocation of the buffer. A
// session may have begun between the two: lost ones then are of that one at whose rate they stand
// for less.
//
// All numbers are the target's word: of a hole never more count than records are missing, nor more
// than kMostOwed in all. What does not is counted as not made up for, by records where the number
// of allocations is not known.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "agent-lib/include/memprof_agent_abi.h"

namespace memprofd {

class LostAllocations {
 public:
  // Allocations over which what is owed is made up for: as many as the largest hole had, and this
  // many at least.
  static constexpr double kLeastHorizon = 1024;
  static constexpr int kMostLog2 = 10;
  static constexpr double kMostOwed = 1 << 24;

  // id_step: how far the numbers of a buffer's sampled blocks are apart.
  explicit LostAllocations(std::uint64_t id_step) : id_step_(id_step) {}

  // Number of the buffer's blocks that were sampled before. Without it a hole before the buffer's
  // first allocation is not corrected.
  void begin_after(std::uint32_t buffer, std::uint64_t sampled) {
    buffers_[buffer].last_id = sampled * id_step_;
  }
  // Records of that buffer were lost, all older than those to come.
  void on_lost(std::uint32_t buffer, std::uint64_t records) {
    buffers_[buffer].lost += records;
    buffers_[buffer].sampled.reset();
  }
  // An allocation was seen. Answers how many it counts for, itself and lost ones: the logarithm
  // to the base of 2.
  int on_alloc(std::uint32_t buffer, std::uint64_t sample_id);
  // At another rate than before, maybe; in samples per word.
  void begin_session(double rate);
  // Number of the buffer's blocks that were sampled so far, lost ones included.
  void on_reached(std::uint32_t buffer, std::uint64_t sampled) {
    buffers_[buffer].sampled = sampled;
  }
  // Nothing more comes: what is owed, or lost behind all that was seen, is not made up for.
  void end();

  // Lost ones that no other counts for yet, in samples of the session that runs.
  double owed() const { return owed_; }
  // Lost ones for which no other will ever count.
  std::uint64_t not_made_up() const { return not_made_up_; }

 private:
  struct Buffer {
    std::optional<std::uint64_t> last_id;  // of the last allocation seen
    std::optional<std::uint64_t> sampled;  // blocks so far, if that is known since the loss
    std::uint64_t lost = 0;                // records since then
    double scale = 1;                      // samples of this session that a lost one makes
  };

  std::uint64_t lost_at_the_end(const Buffer& of) const;
  void close_hole(Buffer& of, std::uint64_t sample_id);
  void owe(double samples);

  std::uint64_t id_step_;
  std::array<Buffer, MEMPROF_BUFFERS> buffers_;
  double rate_ = 0;  // 0: no session yet
  double owed_ = 0;
  double largest_hole_ = 0;  // since nothing was owed
  std::uint64_t not_made_up_ = 0;
};

}  // namespace memprofd
