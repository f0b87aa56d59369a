// SPDX-License-Identifier: Apache-2.0
// Lost allocation records, and the allocations that count in their place.
//
// The number of lost records is known, because the agent numbers the sampled blocks of a buffer
// without gaps. Their contents are not. Each lost allocation is assumed to be like one that is seen
// soon after, which counts for both, as if it had been sampled at half the rate. The expected total
// is then the same as without the loss, but with a larger variance: m samples that count once have
// a variance of m, one that counts m times has m^2.
//
//   numbers seen  1 2 3 | 7 8 9 10 11      4, 5, 6 were lost
//   count for     1 1 1   2 2 2  1  1      8 samples seen, 11 counted
//
// No sample counts for more than necessary: after one hole each counts twice, so that the
// replacements cover as many allocations as the hole did, over the same phases of the program. Only
// if more is lost before that is made up for does each count four times, then eight ...
//
// The next allocation of the buffer shows how many of the lost records were allocations. If a
// session began in between, the lost ones are assigned to the session at whose rate they weigh
// less.
//
// All numbers come from the target and are not trusted: a hole never adds more than the missing
// records, nor more than kMaxOwed in total. The rest counts as not made up for, by records if the
// number of allocations is unknown.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "agent-lib/include/memprof_agent_abi.h"

namespace memprofd {

class LostAllocations {
 public:
  // Minimum number of allocations over which the debt is made up for; if the largest hole was
  // larger, its size is used.
  static constexpr double kMinHorizon = 1024;
  static constexpr int kMaxLog2 = 10;
  static constexpr double kMaxOwed = 1 << 24;

  // id_step: difference between consecutive numbers of a buffer's sampled blocks.
  explicit LostAllocations(std::uint64_t id_step) : id_step_(id_step) {}

  // Sets the number of the buffer's blocks that were sampled earlier. Without it a hole before the
  // buffer's first allocation is not corrected.
  void begin_after(std::uint32_t buffer, std::uint64_t sampled) {
    buffers_[buffer].last_id = sampled * id_step_;
  }
  // Records of that buffer were lost. All of them are older than those to come.
  void on_lost(std::uint32_t buffer, std::uint64_t records) {
    buffers_[buffer].lost += records;
    buffers_[buffer].sampled.reset();
  }
  // An allocation was seen. Returns the base-2 logarithm of the number of allocations that it
  // counts for, itself and lost ones.
  int on_alloc(std::uint32_t buffer, std::uint64_t sample_id);
  // A session begins, possibly at another rate, in samples per word.
  void begin_session(double rate);
  // Sets the number of the buffer's blocks sampled so far, including lost ones.
  void on_reached(std::uint32_t buffer, std::uint64_t sampled) {
    buffers_[buffer].sampled = sampled;
  }
  // No more records follow: remaining losses will not be made up for.
  void end();

  // Lost allocations not yet made up for, in samples of the current session.
  double owed() const { return owed_; }
  // The most allocations that were lost and that the counts do not contain, in samples of the
  // current session: those owed, and all records of holes whose end is not known yet. After end()
  // they will never be in the counts.
  double missing() const;
  // Rate of the current session; 0: none yet.
  double rate() const { return rate_; }
  // Lost allocations that will never be made up for.
  std::uint64_t not_made_up() const { return not_made_up_; }

 private:
  struct Buffer {
    std::optional<std::uint64_t> last_id;  // number of the last allocation seen
    std::optional<std::uint64_t> sampled;  // total number of sampled blocks; unset if not known
                                           // since the loss
    std::uint64_t lost = 0;                // records lost since then
    double scale = 1;                      // samples of this session per lost sample
  };

  std::uint64_t lost_at_the_end(const Buffer& of) const;
  void close_hole(Buffer& of, std::uint64_t sample_id);
  void owe(double samples);

  std::uint64_t id_step_;
  std::array<Buffer, MEMPROF_BUFFERS> buffers_;
  double rate_ = 0;  // 0: no session yet
  double owed_ = 0;
  double largest_hole_ = 0;  // since the debt was last zero
  std::uint64_t not_made_up_ = 0;
  double missing_at_the_end_ = 0;
};

}  // namespace memprofd
