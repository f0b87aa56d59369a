// SPDX-License-Identifier: Apache-2.0
// HeapFileWriter: continuations, which hold stacks outside of the heap, and ephemerons.
#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/file/heap_file_writer.h"

namespace memprofd {
namespace {

// The reader of an image does not distinguish further frames.
constexpr std::size_t kMaxNamedFrames = 255;

// The place where the fiber waits, if known.
std::string_view innermost(const std::vector<Location>& frames) {
  for (const Location& frame : frames) {
    if (!frame.function.empty()) return frame.function;
  }
  return "";
}

}  // namespace

// Returns false if the block has no fiber.
bool HeapFileWriter::put_fiber(const BlockPart& part) {
  if (!word_names_.fiber || part.fields.empty()) return false;
  const auto stack = word_names_.fiber(part.fields[0]);
  if (!stack) return false;
  const Shape fiber{.tag = static_cast<std::uint8_t>(tag_of(part.header)),
                    .form = ShapeForm::kFiber,
                    .name = text(innermost(stack->frames)),
                    .words = part.words,
                    .site = fiber_site(stack->frames)};
  blocks_.bytes.put(shape(fiber).number);
  std::uint32_t frame = 0;
  for (const FiberStack::Held& held : stack->held) {
    if (held.frame >= kMaxFiberFrames) break;
    if (!in_heap(held.value)) continue;
    blocks_.bytes.put(1 + held.frame - std::exchange(frame, held.frame));
    put_pointer(held.value);
    if (blocks_.bytes.size() >= kPieceBytes) flush_blocks();
  }
  blocks_.bytes.put(0);
  return true;
}

// Returns the number of the callstack plus 1; 0: there are too many.
std::uint32_t HeapFileWriter::fiber_site(const std::vector<Location>& frames) {
  std::vector<std::uint32_t> places;
  for (std::size_t i = 0; i < std::min(frames.size(), kMaxNamedFrames); ++i) {
    places.push_back(location(frames[i]));
  }
  const auto found = fiber_sites_.find(places);
  if (found != fiber_sites_.end()) return found->second;
  if (fiber_sites_.size() == kMaxFiberSites) return 0;
  const std::uint32_t site = add_site_of(places) + 1;
  fiber_sites_.emplace(std::move(places), site);
  return site;
}

// Returns false if the block is not an ephemeron. An ephemeron does not keep the next one in the
// runtime's list alive.
bool HeapFileWriter::put_weak(const BlockPart& part) {
  if (part.fields.size() < kFirstKey || !ephemerons_.blocks.contains(part.address)) return false;
  const bool has_data = part.fields[kEphemeronData] != ephemerons_.nothing;
  const Shape weak{.tag = static_cast<std::uint8_t>(tag_of(part.header)),
                   .form = ShapeForm::kWeak,
                   .name = text(has_data ? kEphemeronName : kWeakArrayName),
                   .words = part.words};
  blocks_.bytes.put(shape(weak).number);
  in_list_ = true;
  last_field_ = 0;
  BlockPart behind = part;
  behind.first = kEphemeronData;
  behind.fields = part.fields.subspan(kEphemeronData);
  put_fields(behind);
  return true;
}

}  // namespace memprofd
