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

}  // namespace memprofd
