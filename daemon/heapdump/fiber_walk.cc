// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/fiber_walk.h"

#include <algorithm>
#include <array>

#include "daemon/discover/frame_table.h"
#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

constexpr std::size_t kWindowWords = 1024;
constexpr std::uint64_t kWordsOfFiber = 16;
constexpr std::uint64_t kEndOffset = 16;  // in struct stack_info
// The frame of caml_start_program contains the registers that the chunk above it saved.
constexpr std::uint64_t kRegistersOffset = 24;
constexpr std::uint64_t kChunkHeadBytes = 32;

}  // namespace

// Stacks are read from their innermost frame outwards, many words at a time.
std::optional<std::uint64_t> FiberWalk::word(std::uint64_t address) {
  if (address < window_at_ || address - window_at_ >= window_.size() * kWordBytes) {
    const bool in_stack = begin_ <= address && address < end_;
    const std::size_t words =
        in_stack ? std::min<std::uint64_t>((end_ - address) / kWordBytes, kWindowWords) : 1;
    window_.resize(std::max<std::size_t>(words, 1));
    window_at_ = address;
    if (!memory_.read(address, std::as_writable_bytes(std::span(window_))).ok()) {
      window_.clear();
      return std::nullopt;
    }
  }
  return window_[(address - window_at_) / kWordBytes];
}

const FiberWalk::Frame* FiberWalk::frame_of(std::uint64_t return_address) {
  const auto known = frames_.find(return_address);
  if (known != frames_.end()) return &known->second;
  const FrameDescriptor* descriptor = table_.find(return_address);
  if (descriptor == nullptr) return nullptr;
  Frame frame{.ends_chunk = descriptor->ends_chunk(),
              .bytes = descriptor->frame_size & FrameDescriptor::kSizeMask,
              .live = {}};
  std::uint16_t count = 0;
  if (!memory_.read_value(descriptor->address + FrameDescriptor::kLiveCountOffset, count).ok() ||
      count > FrameDescriptor::kMaxLive) {
    return nullptr;
  }
  frame.live.resize(count);
  const auto live = std::as_writable_bytes(std::span(frame.live));
  if (!memory_.read(descriptor->address + FrameDescriptor::kLiveOffset, live).ok()) return nullptr;
  return &(frames_[return_address] = std::move(frame));
}

void FiberWalk::walk(SavedFiber saved, const OnFrame& on_frame) {
  while (saved.fiber != 0 && saved.fiber % kWordBytes == 0 && fibers_ <= kMaxFibers) {
    if (++fibers_ > kMaxFibers || !spend(kWordsOfFiber)) return;
    std::array<std::uint64_t, 1 + kEndOffset / kWordBytes> info{};
    if (!memory_.read_value(saved.fiber, info).ok()) return;
    begin_ = info.front();
    end_ = info.back();
    if (begin_ > end_ || (begin_ | end_) % kWordBytes != 0 || end_ - begin_ > kMaxStackBytes)
      return;
    window_.clear();
    if (!walk_stack(saved.registers, on_frame) || !report_handler(saved.fiber, on_frame)) return;
  }
}

bool FiberWalk::walk_stack(std::uint64_t registers, const OnFrame& on_frame) {
  frames_left_ = kMaxFrames;
  for (std::uint64_t at = begin_; at < end_;) {
    if (!walk_chunk(at, registers, on_frame)) return false;
  }
  return true;
}

// Walks the frames from where OCaml code was left to where C code called it.
bool FiberWalk::walk_chunk(std::uint64_t& at, std::uint64_t& registers, const OnFrame& on_frame) {
  auto return_address = word(at);
  at += kWordBytes;
  while (return_address && frames_left_-- > 0 && at < end_) {
    const Frame* frame = frame_of(*return_address);
    if (frame == nullptr) {
      report_rest(at, on_frame);
      at = end_;
      return true;
    }
    if (frame->ends_chunk) {
      const auto saved = word(at + kRegistersOffset);
      registers = saved.value_or(0);
      at += kChunkHeadBytes;
      return saved.has_value();
    }
    if (!report_frame(*frame, *return_address, at, registers, on_frame)) return false;
    at += frame->bytes;
    return_address = word(at - kWordBytes);
  }
  return false;
}

// An odd entry is a register that was saved, an even one a place in the frame.
bool FiberWalk::report_frame(const Frame& frame, std::uint64_t return_address, std::uint64_t at,
                             std::uint64_t registers, const OnFrame& on_frame) {
  slots_.clear();
  // A frame has at least a return address; otherwise the walk would not advance.
  if (frame.bytes < kWordBytes || !spend(1 + frame.live.size())) return false;
  for (const std::uint16_t entry : frame.live) {
    const bool in_register = (entry & 1) != 0;
    const std::uint64_t address = in_register ? registers + kWordBytes * (entry >> 1) : at + entry;
    std::uint64_t value = 0;
    if (in_register) {
      if (!memory_.read_value(address, value).ok()) return false;
    } else if (const auto found = word(address)) {
      value = *found;
    } else {
      return false;
    }
    slots_.push_back({address, value});
  }
  return on_frame(return_address, slots_);
}

// It is unknown which of these words are values.
void FiberWalk::report_rest(std::uint64_t at, const OnFrame& on_frame) {
  slots_.clear();
  for (; at < end_ && spend(1); at += kWordBytes) {
    const auto value = word(at);
    if (!value) return;
    slots_.push_back({at, *value});
    if (slots_.size() < kWindowWords) continue;
    if (!on_frame(0, slots_)) return;
    slots_.clear();
  }
  on_frame(0, slots_);
}

bool FiberWalk::report_handler(std::uint64_t& parent, const OnFrame& on_frame) {
  std::array<std::uint64_t, 4> handler{};
  if (!memory_.read_value(end_, handler).ok()) return false;
  parent = handler.back();
  slots_.clear();
  for (std::size_t i = 0; i + 1 < handler.size(); ++i) {
    slots_.push_back({end_ + i * kWordBytes, handler[i]});
  }
  return on_frame(0, slots_);
}

}  // namespace memprofd
