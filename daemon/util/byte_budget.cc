// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/byte_budget.h"

#include <fmt/core.h>

#include <utility>

#include "daemon/util/units.h"

namespace memprofd {

ByteBudget::~ByteBudget() {
  if (total_ != nullptr) total_->give_back(used());
}

const SharedBudget& ByteBudget::of_process() {
  static const auto process = std::make_shared<ByteBudget>(kNoLimit);
  return process;
}

SharedBudget ByteBudget::for_target() {
  static const auto all = std::make_shared<ByteBudget>(kAllTargetsBytes, of_process(), 0);
  return std::make_shared<ByteBudget>(kTargetBytes, all, kAssuredBytes);
}

SharedBudget ByteBudget::for_samples() {
  return std::make_shared<ByteBudget>(kNoLimit, of_process(), kAssuredSampleBytes);
}

bool ByteBudget::take_of_own(std::uint64_t bytes, std::uint64_t spare) {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    const std::uint64_t left = used < limit() ? limit() - used : 0;
    if (bytes > left || spare > left - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

bool ByteBudget::take(std::uint64_t bytes, std::uint64_t spare) {
  if (!take_of_own(bytes, spare)) return false;
  if (total_ != nullptr && !total_->take(bytes)) {
    if (used() > assured_) {
      used_.fetch_sub(bytes, std::memory_order_relaxed);
      return false;
    }
    total_->take_anyway(bytes);
  }
  note_peak();
  return true;
}

void ByteBudget::take_anyway(std::uint64_t bytes) {
  used_.fetch_add(bytes, std::memory_order_relaxed);
  if (total_ != nullptr) total_->take_anyway(bytes);
  note_peak();
}

void ByteBudget::note_peak() {
  const std::uint64_t now = used();
  std::uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void ByteBudget::give_back(std::uint64_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  if (total_ != nullptr) total_->give_back(bytes);
}

ByteCharge& ByteCharge::operator=(ByteCharge&& other) noexcept {
  if (this == &other) return *this;
  shrink_to(0);
  budget_ = std::move(other.budget_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

bool ByteCharge::grow(std::uint64_t bytes, std::uint64_t spare) {
  if (budget_ != nullptr && !budget_->take(bytes, spare)) return false;
  bytes_ += bytes;
  return true;
}

bool ByteCharge::grow_or_count(std::uint64_t bytes) {
  if (grow(bytes)) return true;
  budget_->count_refused(1);
  return false;
}

void ByteCharge::grow_anyway(std::uint64_t bytes) {
  if (budget_ != nullptr) budget_->take_anyway(bytes);
  bytes_ += bytes;
}

void ByteCharge::shrink_to(std::uint64_t bytes) {
  if (bytes >= bytes_) return;
  if (budget_ != nullptr) budget_->give_back(bytes_ - bytes);
  bytes_ = bytes;
}

std::string over_budget(std::string_view what, std::uint64_t bytes) {
  return fmt::format("{} need {}, more than is left of the {} that one target may use", what,
                     format_bytes(static_cast<double>(bytes)),
                     format_bytes(static_cast<double>(kTargetBytes)));
}

}  // namespace memprofd
