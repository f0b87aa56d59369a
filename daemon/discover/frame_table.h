// The program's frame descriptors: which return address has which frame size.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/memory_reader.h"

namespace memprofd {

// One frame descriptor (runtime/caml/stack.h).
struct FrameDescriptor {
  std::uint64_t return_address = 0;
  std::uint64_t address = 0;     // of the descriptor in the process
  std::uint16_t frame_size = 0;  // raw, flag bits included; 0xFFFF ends a stack chunk
};

class FrameTable {
 public:
  FrameTable() = default;
  explicit FrameTable(std::vector<FrameDescriptor> descriptors);  // any order

  const std::vector<FrameDescriptor>& descriptors() const { return descriptors_; }
  // Null when the address is in no table.
  const FrameDescriptor* find(std::uint64_t return_address) const;
  // Descriptors that were malformed or beyond a cap and left out.
  std::uint64_t skipped = 0;

 private:
  std::vector<FrameDescriptor> descriptors_;  // sorted by return address
};

// Reads caml_frametable: a null-terminated array of pointers to tables, each an
// 8-byte count and that many descriptors. Total on garbage: absurd counts and
// unreadable memory end in skipped descriptors, an empty result in an error.
absl::StatusOr<FrameTable> read_frame_table(const MemoryReader& memory,
                                            std::uint64_t caml_frametable);

// Reads the tables at these addresses; as total, and empty when there is nothing.
FrameTable read_frame_tables(const MemoryReader& memory, std::span<const std::uint64_t> tables);

// The open-addressing form that the kernel walks (bpf/events.h): 1 << bits slots.
struct KernelFrameTable {
  std::uint32_t bits = 0;
  std::vector<std::uint64_t> slots;
  std::uint64_t left_out = 0;  // descriptors without a slot
};
// Grows the table until no probe sequence exceeds MEMPROF_MAX_PROBES. Addresses
// of 48 bits and more cannot be represented and are left out, and so are those
// that collide even in a table many times larger than usual. There is room for as many
// more descriptors as are reserved.
KernelFrameTable build_kernel_frame_table(const FrameTable& table, std::uint64_t reserved = 0);
// How many to reserve for plugins when a program of so many descriptors may load some, and
// has loaded so many.
std::uint64_t room_for_plugins(std::uint64_t descriptors, std::uint64_t loaded);

}  // namespace memprofd
