// SPDX-License-Identifier: Apache-2.0
// How many streams there may be: each takes one of the gRPC server's threads for as long as it
// lasts, and some of those stay free for calls.
#pragma once

#include <atomic>
#include <optional>
#include <utility>

namespace memprofd {

// Thread-safe.
class StreamPlaces {
 public:
  static constexpr int kPlaces = 32;

  class Place {
   public:
    explicit Place(StreamPlaces& places) : places_(&places) {}
    Place(Place&& other) noexcept : places_(std::exchange(other.places_, nullptr)) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (places_ != nullptr) --places_->taken_;
    }

   private:
    StreamPlaces* places_;
  };

  // None when all are taken. The places must outlive it.
  std::optional<Place> take() {
    if (++taken_ <= kPlaces) return Place(*this);
    --taken_;
    return std::nullopt;
  }
  int taken() const { return taken_; }

 private:
  std::atomic<int> taken_ = 0;
};

}  // namespace memprofd
