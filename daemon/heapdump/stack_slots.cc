// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/stack_slots.h"

#include <array>
#include <span>

#include "daemon/discover/frame_table.h"

namespace memprofd {
namespace {

constexpr int kMaxFrames = 1 << 18;  // of one thread
constexpr std::size_t kMaxSlots = 1u << 22;
// Offset of the end of the previous chunk, in the frame of caml_start_program.
constexpr std::uint64_t kChunkLinkOffset = 16;

}  // namespace

void StackSlots::add(SavedStack at) {
  for (int i = 0; i < kMaxFrames && at.stack != 0 && frames_.size() < kMaxSlots; ++i) {
    const FrameDescriptor* frame = table_.find(at.return_address);
    if (frame == nullptr) return;
    if (frame->ends_chunk()) {
      if (!go_to_chunk_before(at)) return;
      continue;
    }
    if (!add_frame(*frame, at)) return;
    at.stack += frame->frame_size & FrameDescriptor::kSizeMask;
    if (!memory_.read_value(at.stack - 8, at.return_address).ok()) return;
  }
}

// Records for each slot of the stack to which frame it belongs.
void StackSlots::add(SavedFiber saved) {
  fibers_.walk(saved, [this](std::uint64_t return_address, std::span<const FiberWalk::Slot> slots) {
    if (return_address == 0) return true;
    for (const FiberWalk::Slot& slot : slots) frames_[slot.address] = return_address;
    return frames_.size() < kMaxSlots;
  });
}

// An odd entry is a register that was saved, an even one a place in the frame.
bool StackSlots::add_frame(const FrameDescriptor& frame, const SavedStack& at) {
  std::uint16_t count = 0;
  if (!memory_.read_value(frame.address + FrameDescriptor::kLiveCountOffset, count).ok() ||
      count > FrameDescriptor::kMaxLive) {
    return false;
  }
  std::array<std::uint16_t, FrameDescriptor::kMaxLive> live;
  const auto entries = std::span(live).first(count);
  if (!memory_.read(frame.address + FrameDescriptor::kLiveOffset, std::as_writable_bytes(entries))
           .ok())
    return false;
  for (const std::uint16_t entry : entries) {
    const bool in_register = (entry & 1) != 0;
    frames_[in_register ? at.registers + 8 * (entry >> 1) : at.stack + entry] = at.return_address;
  }
  return true;
}

bool StackSlots::go_to_chunk_before(SavedStack& at) const {
  std::array<std::uint64_t, 3> link{};
  if (!memory_.read_value(at.stack + kChunkLinkOffset, link).ok()) return false;
  const bool goes_up = link[0] == 0 || link[0] > at.stack;
  at = {link[0], link[1], link[2]};
  return goes_up;
}

std::uint64_t StackSlots::frame_of(std::uint64_t slot) const {
  const auto found = frames_.find(slot);
  return found == frames_.end() ? 0 : found->second;
}

}  // namespace memprofd
