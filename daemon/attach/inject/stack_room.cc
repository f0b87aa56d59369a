// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/stack_room.h"

#include <sys/resource.h>
#include <sys/uio.h>

#include <array>
#include <bit>
#include <vector>

namespace memprofd {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

// Lowest address a main thread's stack may grow to.
std::uint64_t growth_limit(int pid, const AddressRange& stack) {
  rlimit limit{};
  if (prlimit(pid, RLIMIT_STACK, nullptr, &limit) != 0) return stack.begin;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= stack.end) return 0;
  return stack.end - limit.rlim_cur;
}

// Reads a byte of each page in [begin, end]. Guard pages and missing pages fail.
bool is_readable(int pid, std::uint64_t begin, std::uint64_t end) {
  std::vector<iovec> pieces;
  for (std::uint64_t at = begin; at < end; at += kPageBytes)
    pieces.push_back({std::bit_cast<void*>(at), 1});
  pieces.push_back({std::bit_cast<void*>(end), 1});
  std::vector<char> bytes(pieces.size());
  const iovec local = {bytes.data(), bytes.size()};
  return process_vm_readv(pid, &local, 1, pieces.data(), pieces.size(), 0) ==
         static_cast<ssize_t>(bytes.size());
}

}  // namespace

AddressRange find_main_stack(const std::vector<Mapping>& maps) {
  for (const Mapping& mapping : maps)
    if (mapping.path == "[stack]") return {mapping.begin, mapping.end};
  return {};
}

bool has_stack_room(int pid, const AddressRange& main_stack, std::uint64_t stack_pointer,
                    std::uint64_t bytes) {
  if (stack_pointer < bytes) return false;
  if (main_stack.contains(stack_pointer))
    return growth_limit(pid, main_stack) <= stack_pointer - bytes;
  return is_readable(pid, stack_pointer - bytes, stack_pointer);
}

}  // namespace memprofd
