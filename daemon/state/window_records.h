// SPDX-License-Identifier: Apache-2.0
// Converts windows of a history, and live memory, to records and back. Accepts any input and
// ignores inconsistent messages.
#pragma once

#include <memory>
#include <optional>

#include "daemon/aggregate/aggregator.h"
#include "daemon/history/history_window.h"
#include "daemon/util/estimate.h"
#include "state/state.pb.h"

namespace memprofd {

// Above all ids that a class table assigns.
inline constexpr std::uint32_t kMaxStoredId = (1u << 27) - 1;

void put_estimate(const Estimate& estimate, state::Estimate& out);
Estimate get_estimate(const state::Estimate& message);

void put_window(const HistoryWindow& window, int tier, state::Window& out);
HistoryWindowPtr get_window(const state::Window& message);  // null: it is invalid

// Writes the live memory of a session as forgotten.
void put_live(const LiveOfSession& live, state::Part& out);
// The entries have no words yet.
std::optional<LiveOfSession> get_live(const state::Part& message);

}  // namespace memprofd
