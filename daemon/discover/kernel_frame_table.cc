// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "bpf/events.h"
#include "daemon/discover/frame_table.h"

namespace memprofd {
namespace {

constexpr std::uint32_t kMinBits = 4;
constexpr std::uint32_t kMaxBits = 24;
// Only addresses that were made to collide need a table larger than the usual size by this factor.
constexpr std::uint32_t kMaxExtraBits = 4;
constexpr std::uint64_t kPluginDescriptors = 65536;
// Slots per descriptor when the reserved room is full; then probe sequences of 64 suffice.
constexpr std::uint64_t kSlotsNum = 4, kSlotsDen = 3;

// Inserts into the first free slot of the probe sequence. Returns false if there is none.
bool insert_slot(KernelFrameTable& table, const FrameDescriptor& descriptor) {
  const std::uint64_t mask = table.slots.size() - 1;
  std::uint64_t at = memprof_slot_home(descriptor.return_address, table.bits);
  for (std::uint32_t i = 0; i < MEMPROF_MAX_PROBES; ++i, at = (at + 1) & mask) {
    if (table.slots[at] != 0) continue;
    table.slots[at] = MEMPROF_SLOT(descriptor.return_address, descriptor.frame_size);
    return true;
  }
  return false;
}

// Charges for the slots and the kernel's copy. Returns false if they exceed the budget.
bool charge_slots(KernelFrameTable& table) {
  const std::uint64_t bytes = 2 * sizeof(table.slots[0]) << table.bits;
  return bytes <= table.charge->bytes() || table.charge->grow(bytes - table.charge->bytes());
}

// Fills the slots. Returns the number of descriptors that do not fit.
std::uint64_t fill(KernelFrameTable& table, const FrameTable& frames) {
  table.slots.assign(std::size_t{1} << table.bits, 0);
  std::uint64_t left_out = 0;
  for (const FrameDescriptor& descriptor : frames.descriptors()) {
    const bool fits = descriptor.return_address != 0 &&
                      descriptor.return_address < FrameDescriptor::kAddressLimit;
    if (!fits || !insert_slot(table, descriptor)) ++left_out;
  }
  return left_out;
}

}  // namespace

// Reserves enough for the plugins of the largest known programs (Coq: 60,000). The reserve at most
// doubles a table of that size.
std::uint64_t room_for_plugins(std::uint64_t descriptors, std::uint64_t loaded) {
  return std::max<std::uint64_t>({descriptors / 4, loaded + loaded / 4, kPluginDescriptors});
}

KernelFrameTable build_kernel_frame_table(const FrameTable& frames, std::uint64_t reserved,
                                          const SharedBudget& budget) {
  const auto& all = frames.descriptors();
  const auto representable = static_cast<std::uint64_t>(
      std::count_if(all.begin(), all.end(), [](const FrameDescriptor& d) {
        return d.return_address != 0 && d.return_address < FrameDescriptor::kAddressLimit;
      }));
  KernelFrameTable table;
  table.charge = std::make_shared<ByteCharge>(budget);
  const std::uint64_t slots =
      std::max(2 * representable, (representable + reserved) * kSlotsNum / kSlotsDen);
  table.bits = std::clamp<std::uint32_t>(std::bit_width(slots), kMinBits, kMaxBits);
  const std::uint32_t last = std::min(kMaxBits, table.bits + kMaxExtraBits);
  const std::uint64_t unavoidable = all.size() - representable;
  while (table.bits > kMinBits && !charge_slots(table)) --table.bits;
  for (;;) {
    table.left_out = fill(table, frames);
    if (table.left_out <= unavoidable || table.bits >= last) return table;
    ++table.bits;
    if (charge_slots(table)) continue;
    --table.bits;
    budget->count_refused(table.left_out - unavoidable);
    return table;
  }
}

}  // namespace memprofd
