// SPDX-License-Identifier: Apache-2.0
// Limits the memory for the data of each target. Everything whose size depends on a program, its
// files, its memory or its samples is charged here before it is allocated, and refused if it does
// not fit.
//
//   process (--memory.max) <- programs (1 GiB) <- program of a target (256 MiB, 32 assured)
//                          <- samples of a target (2 MiB assured)
//
// A target may take more than its assured part while memory is left; the assured part is always
// available to it. History has a budget of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace memprofd {

// Limits for one target, and for all that are inspected or kept at the same time. kAssuredBytes is
// guaranteed to each target even if others have used up the total; it suffices for most programs.
inline constexpr std::uint64_t kTargetBytes = 256ull << 20;
inline constexpr std::uint64_t kAllTargetsBytes = 1ull << 30;
inline constexpr std::uint64_t kAssuredBytes = 32ull << 20;
inline constexpr std::uint64_t kAssuredSampleBytes = 2ull << 20;
inline constexpr std::uint64_t kNoLimit = ~0ull;

// Thread-safe.
class ByteBudget {
 public:
  // total is charged with the same bytes and may be null. The first `assured` bytes are never
  // refused.
  explicit ByteBudget(std::uint64_t limit, std::shared_ptr<ByteBudget> total = nullptr,
                      std::uint64_t assured = 0)
      : limit_(limit), assured_(assured), total_(std::move(total)) {}
  ~ByteBudget();
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // The budget for the data of all targets.
  static const std::shared_ptr<ByteBudget>& of_process();
  // A budget of kTargetBytes within the kAllTargetsBytes of this process.
  static std::shared_ptr<ByteBudget> for_target();
  // A budget for the samples of one target. Each of its tables also has a limit of its own.
  static std::shared_ptr<ByteBudget> for_samples();

  // Charges bytes if at least `spare` bytes remain afterwards; otherwise returns false and charges
  // nothing.
  bool take(std::uint64_t bytes, std::uint64_t spare = 0);
  // Charges bytes that are already allocated, whether they fit or not.
  void take_anyway(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);

  // Changes the limit without affecting memory in use.
  void set_limit(std::uint64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }

  // Counts items, of any size, that were omitted because they did not fit.
  void count_refused(std::uint64_t things) {
    refused_.fetch_add(things, std::memory_order_relaxed);
  }
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

  std::uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  // Highest use so far.
  std::uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  bool take_of_own(std::uint64_t bytes, std::uint64_t spare);
  void note_peak();

  std::atomic<std::uint64_t> limit_;
  const std::uint64_t assured_;
  const std::shared_ptr<ByteBudget> total_;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> peak_{0};
  std::atomic<std::uint64_t> refused_{0};
};

using SharedBudget = std::shared_ptr<ByteBudget>;

// Bytes charged for one object, returned when this is destroyed. Movable along with its object. Not
// thread-safe.
class ByteCharge {
 public:
  // Creates a charge without a budget, in which everything fits.
  ByteCharge() = default;
  explicit ByteCharge(SharedBudget budget) : budget_(std::move(budget)) {}
  ByteCharge(ByteCharge&& other) noexcept
      : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
  ByteCharge& operator=(ByteCharge&& other) noexcept;
  ~ByteCharge() { shrink_to(0); }

  // Returns false and changes nothing if the bytes do not fit.
  bool grow(std::uint64_t bytes, std::uint64_t spare = 0);
  // Like grow(), but counts a refusal.
  bool grow_or_count(std::uint64_t bytes);
  void grow_anyway(std::uint64_t bytes);
  void shrink_to(std::uint64_t bytes);

  std::uint64_t bytes() const { return bytes_; }
  const SharedBudget& budget() const { return budget_; }

 private:
  SharedBudget budget_;
  std::uint64_t bytes_ = 0;
};

// Message for a refusal: "WHAT take 1.2 GiB, more than is left of the 256 MiB that are kept of one
// target".
std::string over_budget(std::string_view what, std::uint64_t bytes);

}  // namespace memprofd
