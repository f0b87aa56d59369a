// SPDX-License-Identifier: Apache-2.0
// How many streams there may be: each takes one of the gRPC server's threads for as long as it
// lasts, and some of those stay free for calls.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "daemon/export/api/server_stats.h"

namespace memprofd {

// Thread-safe.
class StreamPlaces {
 public:
  explicit StreamPlaces(std::shared_ptr<ServerStats> stats) : stats_(std::move(stats)) {}

  static constexpr int kPlaces = 32;

  class Place {
   public:
    explicit Place(StreamPlaces& places) : places_(&places) {}
    Place(Place&& other) noexcept : places_(std::exchange(other.places_, nullptr)) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (places_ != nullptr) --places_->stats_->grpc_streams;
    }

   private:
    StreamPlaces* places_;
  };

  // None when all are taken. The places must outlive it.
  std::optional<Place> take() {
    if (++stats_->grpc_streams <= kPlaces) return Place(*this);
    --stats_->grpc_streams;
    return std::nullopt;
  }

 private:
  const std::shared_ptr<ServerStats> stats_;  // counts those that are taken
};

}  // namespace memprofd
