// SPDX-License-Identifier: Apache-2.0
// Figures of a refused snapshot, from which clients offer to repeat it with a longer pause. They
// travel as the payload of the error and survive any change of its code and message.
#pragma once

#include <algorithm>
#include <optional>

#include "absl/status/status.h"

namespace memprofd {

// The longest pause that a request may allow.
inline constexpr double kLongestPauseSeconds = 60;

struct PauseRefusal {
  double predicted_seconds = 0;  // predicted pause; 0: unknown, as the domains did not stop in time
  double allowed_seconds = 0;

  // A limit that will not be refused again: predictions are accurate within a factor of 1.5. Busy
  // domains stop when each has had a processor, which took 0.1 to 0.9 s where eight of them shared
  // two processors with a load of 20.
  double enough_seconds() const {
    constexpr double kDomainsStopSeconds = 1;
    const double seconds = predicted_seconds > 0
                               ? 2 * predicted_seconds
                               : std::max(4 * allowed_seconds, kDomainsStopSeconds);
    return std::min(seconds, kLongestPauseSeconds);
  }
};

absl::Status with_refusal(absl::Status status, const PauseRefusal& refusal);
// Returns nullopt for any other error.
std::optional<PauseRefusal> pause_refusal_of(const absl::Status& status);
// The same error with another code; keeps the payload.
absl::Status with_code(const absl::Status& status, absl::StatusCode code);

}  // namespace memprofd
