// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/minor_collections.h"

#include <array>
#include <cstring>
#include <utility>

#include "daemon/attach/inject/trip_young_limit.h"

namespace memprofd {
namespace {

constexpr std::size_t kCodeBytes = 48;

std::optional<std::uint32_t> find_request(const Target& target) {
  const auto function = target.program->find_symbol("caml_request_minor_gc");
  std::array<std::byte, kCodeBytes> code{};
  if (!function || !target.program->read(function->address, code).ok()) return std::nullopt;
  return decode_request_minor_gc(code);
}

}  // namespace

// 48 c7 /0 disp32 01 00 00 00   movq $1, requested_minor_gc(register)
std::optional<std::uint32_t> decode_request_minor_gc(std::span<const std::byte> code) {
  constexpr std::size_t kLength = 11;
  for (std::size_t i = 0; i + kLength <= code.size(); ++i) {
    const int modrm = std::to_integer<int>(code[i + 2]);
    std::uint32_t words[2] = {};
    std::memcpy(words, &code[i + 3], sizeof words);
    constexpr int kWithSib = 4;
    if (code[i] == std::byte{0x48} && code[i + 1] == std::byte{0xc7} && (modrm & 0xf8) == 0x80 &&
        (modrm & 7) != kWithSib && words[1] == 1) {
      return words[0];
    }
  }
  return std::nullopt;
}

MinorCollections::MinorCollections(const Target& target)
    : target_(&target), requested_(find_request(target)) {
  if (!target.abi.domains) return;
  if (auto locks = RuntimeLocks::find(target); locks.ok()) domains_ = *std::move(locks);
}

std::vector<std::uint64_t> MinorCollections::states() const {
  if (!target_->abi.domains) return {target_->caml_state_address};
  return domains_ ? domains_->domain_states(*target_->memory) : std::vector<std::uint64_t>();
}

void MinorCollections::request() const {
  if (!requested_) return;
  for (const std::uint64_t state : states()) {
    std::uint64_t before = 0;
    const std::uint64_t place = state + *requested_;
    if (!target_->memory->read_value(place, before).ok() || before > 1) continue;
    (void)target_->memory->write_value(place, std::uint64_t{1});
    trip_young_limit_of_domain(*target_->memory, target_->abi, state, target_->pending_actions);
  }
}

}  // namespace memprofd
