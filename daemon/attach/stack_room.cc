#include "daemon/attach/stack_room.h"

#include <sys/resource.h>

#include "daemon/discover/proc_fs.h"

namespace memprofd {
namespace {

// Lowest address a main thread's stack may grow to.
std::uint64_t growth_limit(int pid, const Mapping& stack) {
  rlimit limit{};
  if (prlimit(pid, RLIMIT_STACK, nullptr, &limit) != 0) return stack.begin;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= stack.end) return 0;
  return stack.end - limit.rlim_cur;
}

}  // namespace

bool has_stack_room(int pid, std::uint64_t stack_pointer, std::uint64_t bytes) {
  auto maps = ProcFs().maps(pid);
  if (!maps.ok()) return false;
  for (const Mapping& mapping : *maps) {
    if (stack_pointer < mapping.begin || stack_pointer >= mapping.end) continue;
    const std::uint64_t lowest =
        mapping.path == "[stack]" ? growth_limit(pid, mapping) : mapping.begin;
    return mapping.writable && stack_pointer - lowest >= bytes;
  }
  return false;
}

}  // namespace memprofd
