// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/taking/stack_slots.h"

#include <array>
#include <span>

namespace memprofd {
namespace {

constexpr int kMostFrames = 1 << 18;  // of one thread
constexpr std::size_t kMostSlots = 1u << 22;
constexpr std::uint16_t kMostLive = 4096;
// Frame sizes have flags in the lowest bits; this one says that C code is below.
constexpr std::uint16_t kChunkEnd = 0xffff;
constexpr std::uint64_t kSizeMask = 0xfffc;
// In a descriptor: return address, frame size, number of live entries, those.
constexpr std::uint64_t kLiveCountOffset = 10;
constexpr std::uint64_t kLiveOffset = 12;
// In the frame of caml_start_program: where the chunk before it ended.
constexpr std::uint64_t kChunkLinkOffset = 16;

// OCaml 5. In struct stack_info: where it was left, and its end, which is its struct stack_handler.
// In that, behind three functions: the fiber that it returns to. In the frame of
// caml_start_program: the registers that were saved for the chunk above.
constexpr int kMostFibers = 1 << 18;  // of the program
constexpr std::uint64_t kFiberEndOffset = 16;
constexpr std::uint64_t kParentOffset = 24;
constexpr std::uint64_t kRegistersLinkOffset = 24;
constexpr std::uint64_t kChunkHeadBytes = 32;

}  // namespace

void StackSlots::add(SavedStack at) {
  for (int i = 0; i < kMostFrames && at.stack != 0 && frames_.size() < kMostSlots; ++i) {
    const FrameDescriptor* frame = table_.find(at.return_address);
    if (frame == nullptr) return;
    if (frame->frame_size == kChunkEnd) {
      if (!go_to_chunk_before(at)) return;
      continue;
    }
    if (!add_frame(*frame, at)) return;
    at.stack += frame->frame_size & kSizeMask;
    if (!memory_.read_value(at.stack - 8, at.return_address).ok()) return;
  }
}

void StackSlots::add(SavedFiber saved) {
  while (saved.fiber != 0 && fibers_++ < kMostFibers && frames_.size() < kMostSlots) {
    SavedStack at{.registers = saved.registers};
    std::uint64_t end = 0;
    if (!memory_.read_value(saved.fiber, at.stack).ok() ||
        !memory_.read_value(saved.fiber + kFiberEndOffset, end).ok()) {
      return;
    }
    add_frames_of_fiber(at, end);
    if (!memory_.read_value(end + kParentOffset, saved.fiber).ok()) return;
  }
}

void StackSlots::add_frames_of_fiber(SavedStack at, std::uint64_t end) {
  for (int frames = 0; at.stack < end && frames < kMostFrames;) {
    if (!memory_.read_value(at.stack, at.return_address).ok()) return;
    at.stack += 8;
    if (!add_chunk_of_fiber(at, frames)) return;
  }
}

// Up to the frame that C code called.
bool StackSlots::add_chunk_of_fiber(SavedStack& at, int& frames) {
  while (frames++ < kMostFrames && frames_.size() < kMostSlots) {
    const FrameDescriptor* frame = table_.find(at.return_address);
    if (frame == nullptr) return false;
    if (frame->frame_size == kChunkEnd) {
      if (!memory_.read_value(at.stack + kRegistersLinkOffset, at.registers).ok()) return false;
      at.stack += kChunkHeadBytes;
      return true;
    }
    if (!add_frame(*frame, at)) return false;
    at.stack += frame->frame_size & kSizeMask;
    if (!memory_.read_value(at.stack - 8, at.return_address).ok()) return false;
  }
  return false;
}

// An odd entry is a register that was saved, an even one a place in the frame.
bool StackSlots::add_frame(const FrameDescriptor& frame, const SavedStack& at) {
  std::uint16_t count = 0;
  if (!memory_.read_value(frame.address + kLiveCountOffset, count).ok() || count > kMostLive) {
    return false;
  }
  std::array<std::uint16_t, kMostLive> live;
  const auto entries = std::span(live).first(count);
  if (!memory_.read(frame.address + kLiveOffset, std::as_writable_bytes(entries)).ok())
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
