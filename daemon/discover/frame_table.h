// SPDX-License-Identifier: Apache-2.0
// The program's frame descriptors: which return address has which frame size.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/byte_budget.h"

namespace memprofd {

// A frame descriptor (runtime/caml/stack.h).
struct FrameDescriptor {
  static constexpr std::uint16_t kChunkEnd = 0xFFFF;  // a frame size: C code is below
  static constexpr std::uint64_t kSizeMask = 0xfffc;  // the lowest bits of a frame size are flags
  // Layout in the process: return address, frame size, number of live entries, the entries.
  static constexpr std::uint64_t kLiveCountOffset = 10;
  static constexpr std::uint64_t kLiveOffset = 12;
  static constexpr std::uint16_t kMaxLive = 4096;  // entries; more are taken for garbage
  // Return addresses are below it: the kernel's table has 48 bits for one.
  static constexpr std::uint64_t kAddressLimit = 1ull << 48;

  std::uint64_t return_address = 0;
  std::uint64_t address = 0;     // of the descriptor in the process
  std::uint16_t frame_size = 0;  // raw, flag bits included

  bool ends_chunk() const { return frame_size == kChunkEnd; }
};

// Immutable; copies share the descriptors.
class FrameTable {
 public:
  FrameTable();
  // Takes descriptors in any order. charge: the charge for their memory.
  explicit FrameTable(std::vector<FrameDescriptor> descriptors, ByteCharge charge = ByteCharge());

  // Sorted by return address; of several with the same one, only the one at the lowest address.
  const std::vector<FrameDescriptor>& descriptors() const { return contents_->descriptors; }
  // Null when the address is in no table.
  const FrameDescriptor* find(std::uint64_t return_address) const;
  // Descriptors that were malformed or beyond a cap or the budget and left out.
  std::uint64_t skipped = 0;
  // The part of these that the budget has no room for.
  std::uint64_t without_room = 0;

 private:
  struct Contents {
    std::vector<FrameDescriptor> descriptors;
    ByteCharge charge;
  };

  std::shared_ptr<const Contents> contents_;
};

// Reads caml_frametable: a null-terminated array of pointers to tables, each an 8-byte count and
// that many descriptors. Accepts any memory: impossible counts and unreadable memory result in
// skipped descriptors, an empty table in an error. mappings: those of that memory, in order.
// Touches only pages that a table claims to reach, or in the mapping of one, because the next
// mapping may be a file that never responds.
absl::StatusOr<FrameTable> read_frame_table(const MemoryReader& memory,
                                            std::span<const Mapping> mappings,
                                            std::uint64_t caml_frametable,
                                            const SharedBudget& budget = nullptr);

// Descriptors read of one program; far more than any has.
inline constexpr std::uint64_t kMaxDescriptors = 4'000'000;

// Reads the tables at these addresses. Accepts any memory, too; the result may be empty. Keeps at
// most this number of descriptors.
FrameTable read_frame_tables(const MemoryReader& memory, std::span<const Mapping> mappings,
                             std::span<const std::uint64_t> tables,
                             const SharedBudget& budget = nullptr,
                             std::uint64_t max_descriptors = kMaxDescriptors);

// The open-addressing form that the kernel walks (bpf/events.h): 1 << bits slots.
struct KernelFrameTable {
  std::uint32_t bits = 0;
  std::vector<std::uint64_t> slots;
  std::uint64_t left_out = 0;  // descriptors without a slot
  // Charged for the slots and for the kernel's copy of them; null: nothing is charged.
  std::shared_ptr<ByteCharge> charge;
};
// Grows the table until no probe sequence exceeds MEMPROF_MAX_PROBES. Leaves out addresses of 48
// bits and more, which cannot be represented, and those that collide even in a table many times
// larger than usual, or in one as large as the budget allows. The table has room for `reserved`
// further descriptors.
KernelFrameTable build_kernel_frame_table(const FrameTable& table, std::uint64_t reserved = 0,
                                          const SharedBudget& budget = nullptr);
// Number of descriptors to reserve for plugins, given the number of descriptors of the program and
// of its loaded plugins.
std::uint64_t room_for_plugins(std::uint64_t descriptors, std::uint64_t loaded);

}  // namespace memprofd
