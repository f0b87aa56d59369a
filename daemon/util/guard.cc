// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/guard.h"

#include <atomic>
#include <chrono>

#include "daemon/util/log.h"

namespace memprofd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kBetweenLines{1};

std::atomic<std::uint64_t> errors = 0;
std::atomic<Clock::time_point> next_line = Clock::time_point();

}  // namespace

std::uint64_t unexpected_errors() { return errors; }

void note_unexpected_error(std::string_view doing, const std::exception& error) {
  const std::uint64_t all = ++errors;
  const auto now = Clock::now();
  auto next = next_line.load();
  if (now < next || !next_line.compare_exchange_strong(next, now + kBetweenLines)) return;
  try {
    log_error("memprofd failed {}: {}; it continues without that ({} such errors so far)", doing,
              error.what(), all);
  } catch (const std::exception&) {  // no memory for the line, which is counted
    next_line = next;
  }
}

}  // namespace memprofd
