// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/breakpoints.h"

#include <algorithm>
#include <vector>

#include "daemon/discover/target_memory.h"

namespace memprofd {
namespace {

#ifdef __x86_64__
constexpr bool kKnown = true;
#else
constexpr bool kKnown = false;
#endif
constexpr std::uint8_t kInt3 = 0xcc, kCall = 0xe8;

}  // namespace

bool shows_no_probe(const MemoryReader& memory, std::span<const std::uint64_t> addresses) {
  std::vector<std::uint8_t> code(addresses.size());
  MemoryQuestion question;
  for (std::size_t i = 0; i < code.size(); ++i) question.about(addresses[i], code[i]);
  if (!kKnown || addresses.empty() || !question.ask(memory).ok()) return false;
  return std::ranges::none_of(code, [](auto byte) { return byte == kInt3 || byte == kCall; });
}

}  // namespace memprofd
