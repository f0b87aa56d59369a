// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/trace_codes.h"

#include <algorithm>
#include <utility>

namespace memprofd {
namespace {

constexpr unsigned kAddressBits = 48;
constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << kAddressBits) - 1;
constexpr std::uint64_t kDebuginfoMark = (1 << 13) - 1;
constexpr std::int32_t kMaxAllocIdx = kDebuginfoMark - 2;

struct Run {
  std::uint64_t code;
  std::uint64_t times;
};

// Appends the frames of the runs from begin to end, counted from the outermost.
void append(const std::vector<Run>& innermost_first, std::uint64_t begin, std::uint64_t end,
            std::vector<std::uint64_t>& codes) {
  std::uint64_t at = 0;
  for (auto run = innermost_first.rbegin(); run != innermost_first.rend(); ++run) {
    const std::uint64_t from = std::max(at, begin);
    at += run->times;
    const std::uint64_t until = std::min(at, end);
    if (from < until) codes.insert(codes.end(), until - from, run->code);
  }
}

}  // namespace

std::uint64_t trace_code(std::uint64_t return_address, std::int32_t alloc_idx) {
  if (return_address == 0 || return_address > kAddressMask) return kUnknownCode;
  if (alloc_idx == kDebuginfoIsInnermost) return kDebuginfoMark << kAddressBits | return_address;
  if (alloc_idx < 0 || alloc_idx > kMaxAllocIdx) return return_address;
  return static_cast<std::uint64_t>(alloc_idx + 1) << kAddressBits | return_address;
}

std::vector<ctf::Location> trace_locations(Symbolizer& symbolizer, std::uint64_t code) {
  if (code == kUnknownCode) return {ctf::unknown_location()};
  const std::uint64_t mark = code >> kAddressBits;
  const auto alloc_idx =
      mark == kDebuginfoMark ? kDebuginfoIsInnermost : static_cast<std::int32_t>(mark) - 1;
  std::vector<ctf::Location> result;
  for (Location& at : symbolizer.locations(code & kAddressMask, alloc_idx)) {
    result.push_back({.file = std::move(at.file),
                      .function = std::move(at.function),
                      .line = at.line,
                      .start_column = at.start_column,
                      .end_column = at.end_column});
  }
  std::ranges::reverse(result);
  return result;
}

void trace_callstack(const Callstack& callstack, std::vector<std::uint64_t>& codes) {
  std::vector<Run> runs;
  std::uint64_t frames = 0;
  callstack.for_each_frame([&](std::uint64_t address, std::int32_t alloc_idx, std::uint64_t times) {
    runs.push_back({trace_code(address, alloc_idx), times});
    frames += times;
  });
  codes.clear();
  if (frames <= kMaxCodes) {
    append(runs, 0, frames, codes);
    return;
  }
  append(runs, 0, kMaxCodes - kInnermostCodes - 1, codes);
  codes.push_back(ctf::kCutCode);
  append(runs, frames - kInnermostCodes, frames, codes);
}

}  // namespace memprofd
