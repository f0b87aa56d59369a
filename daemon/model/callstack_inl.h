// SPDX-License-Identifier: Apache-2.0
// Template members of Callstack; included by callstack.h only.
#pragma once

#include "bpf/events.h"

namespace memprofd {

template <typename Fn>
void Callstack::for_each_run(Fn fn) const {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i] & MEMPROF_RUN_MARK) continue;
    std::uint64_t repeats = 1;
    if (i + 1 < entries.size() && (entries[i + 1] & MEMPROF_RUN_MARK)) {
      repeats += static_cast<std::uint32_t>(entries[i + 1]);
    }
    fn(entries[i], repeats);
  }
}

inline std::optional<std::uint64_t> Callstack::innermost() const {
  for (const std::uint64_t entry : entries) {
    if ((entry & MEMPROF_RUN_MARK) == 0) return entry;
  }
  return std::nullopt;
}

template <typename Fn>
void Callstack::for_each_frame(Fn fn) const {
  bool innermost = true;
  for_each_run([&](std::uint64_t address, std::uint64_t times) {
    if (innermost) {
      innermost = false;
      fn(address, alloc_idx, std::uint64_t{1});
      --times;
    }
    if (times > 0) fn(address, std::int32_t{-1}, times);
  });
}

}  // namespace memprofd
