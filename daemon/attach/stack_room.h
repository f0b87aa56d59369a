// Is there room on a thread's stack for a few more calls?
#pragma once

#include <cstdint>

namespace memprofd {

// True when at least `bytes` lie below stack_pointer: in its mapping, or, for the
// main thread's stack, which grows, above its resource limit. False when unknown.
bool has_stack_room(int pid, std::uint64_t stack_pointer, std::uint64_t bytes);

}  // namespace memprofd
