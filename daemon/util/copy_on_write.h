// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace memprofd {

// A value that copies share until one of them changes it; the size of one pointer. Each copy
// belongs to one thread at a time; copies that share a value may belong to different threads.
template <typename Value>
class CopyOnWrite {
 public:
  CopyOnWrite() = default;  // without a value; allocates nothing
  explicit CopyOnWrite(Value value) : shared_(new Shared{std::move(value)}) {}
  CopyOnWrite(const CopyOnWrite& other) : shared_(other.shared_) {
    if (shared_ != nullptr) shared_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  CopyOnWrite(CopyOnWrite&& other) noexcept : shared_(std::exchange(other.shared_, nullptr)) {}
  CopyOnWrite& operator=(CopyOnWrite other) noexcept {
    std::swap(shared_, other.shared_);
    return *this;
  }
  ~CopyOnWrite() {
    if (shared_ != nullptr && shared_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete shared_;
    }
  }

  // Null without a value.
  const Value* get() const { return shared_ == nullptr ? nullptr : &shared_->value; }
  // True if no copy shares the value. The acquire pairs with the release in the destructors of
  // former copies: their reads happen before the changes that the caller makes now.
  bool is_unique() const {
    return shared_ != nullptr && shared_->owners.load(std::memory_order_acquire) == 1;
  }
  // Returns the value for changes. Copies it first if it is shared, creates it if there is none.
  Value& own() {
    if (!is_unique()) *this = CopyOnWrite(shared_ == nullptr ? Value() : shared_->value);
    return shared_->value;
  }

 private:
  struct Shared {
    Value value;
    std::atomic<std::uint32_t> owners = 1;
  };
  Shared* shared_ = nullptr;
};

}  // namespace memprofd
