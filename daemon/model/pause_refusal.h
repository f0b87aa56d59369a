// SPDX-License-Identifier: Apache-2.0
// Why a snapshot was not taken, in numbers: clients offer it again with a longer pause. The numbers
// travel as the payload of the error, whatever is done with its code and message on the way.
#pragma once

#include <algorithm>
#include <optional>

#include "absl/status/status.h"

namespace memprofd {

// The longest pause that a request may allow.
inline constexpr double kLongestPauseSeconds = 60;

struct PauseRefusal {
  double predicted_seconds = 0;  // of the pause; 0: not known, as its domains did not stop in time
  double allowed_seconds = 0;

  // A limit that will not be refused again: predictions are right within a factor of 1.5.
  double enough_seconds() const {
    const double seconds = predicted_seconds > 0 ? 2 * predicted_seconds : 4 * allowed_seconds;
    return std::min(seconds, kLongestPauseSeconds);
  }
};

absl::Status with_refusal(absl::Status status, const PauseRefusal& refusal);
// Nothing for any other error.
std::optional<PauseRefusal> pause_refusal_of(const absl::Status& status);
// The same error with another code: the payload stays.
absl::Status with_code(const absl::Status& status, absl::StatusCode code);

}  // namespace memprofd
