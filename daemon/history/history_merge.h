// SPDX-License-Identifier: Apache-2.0
// Sums windows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "daemon/history/history_window.h"

namespace memprofd {

// Calls use(cell, rate) with the sum over windows for each class and rate, by rate, then by
// ascending class, with the requested deaths. only: the classes to visit, ascending; empty: all.
void sum_windows(std::span<const HistoryWindowPtr> windows,
                 const std::function<void(const WindowCell&, double)>& use,
                 const DeathsToRead& deaths = kAllDeaths, std::span<const ClassId> only = {});

// Merges consecutive windows into one; requires at least one.
std::shared_ptr<HistoryWindow> merge_windows(std::span<const HistoryWindowPtr> windows,
                                             std::uint64_t begin_ns, std::uint64_t end_ns);

}  // namespace memprofd
