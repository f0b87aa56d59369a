// SPDX-License-Identifier: Apache-2.0
// Layout of a table in memory, 8-byte aligned (runtime/caml/stack.h, asmcomp/emitaux.ml):
//
//   count                                            u64
//   retaddr u64 | frame_size u16 | num_live u16 | live u16 * num_live
//     frame_size & 2:  num_allocs u8 | alloc_length u8 * num_allocs
//     frame_size & 1:  align 4 | debuginfo offset u32 * (num_allocs or 1)
//     align 8
//   ...
//
// For example 90 10 ... 22 00 01 00 10 00, frame_size 0x23, num_live 1: a frame of 0x20 bytes with
// combined allocations: 02 (two) 00 01 (2 and 3 words), padding to 4, two debuginfo offsets,
// padding to 8. A descriptor with frame_size 0xFFFF has neither.
#include "daemon/discover/frame_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace memprofd {
namespace {

constexpr std::uint64_t kMaxTables = 1u << 20;
constexpr std::uint64_t kMaxBytesRead = 512u << 20;
constexpr std::uint64_t kMinAddress = 4096;
constexpr std::uint64_t kHeaderBytes = 12;

constexpr std::uint64_t align_up(std::uint64_t address, std::uint64_t to) {
  return (address + to - 1) & ~(to - 1);
}

// Reads memory through a window that moves forward in big steps, so that a table takes few system
// calls. Pointers are valid until the next call.
class Window {
 public:
  Window(const MemoryReader& memory, std::span<const Mapping> mappings)
      : memory_(memory), mappings_(mappings) {}

  // Returns n bytes at address; null if they are unreadable or kMaxBytesRead is reached.
  const std::byte* at(std::uint64_t address, std::size_t n) {
    if (address >= begin_ && address - begin_ <= bytes_.size() &&
        n <= bytes_.size() - (address - begin_)) {
      return bytes_.data() + (address - begin_);
    }
    return refill(address, n) ? bytes_.data() : nullptr;
  }
  template <typename T>
  bool get(std::uint64_t address, T& out) {
    const std::byte* p = at(address, sizeof out);
    if (p != nullptr) std::memcpy(&out, p, sizeof out);
    return p != nullptr;
  }

 private:
  static constexpr std::size_t kStep = 256 << 10;

  // Bytes from an address to the end of its mapping, or of its page if it is in no mapping.
  std::uint64_t mapped_behind(std::uint64_t address) const {
    constexpr std::uint64_t kPage = 4096;
    const auto after =
        std::upper_bound(mappings_.begin(), mappings_.end(), address,
                         [](std::uint64_t a, const Mapping& mapping) { return a < mapping.end; });
    const bool inside = after != mappings_.end() && after->begin <= address;
    return inside ? after->end - address : kPage - address % kPage;
  }

  // A large read fails if a page is missing, so it is halved down to the needed size.
  bool refill(std::uint64_t address, std::size_t n) {
    const std::size_t most =
        std::max<std::size_t>(std::min<std::uint64_t>(kStep, mapped_behind(address)), n);
    for (std::size_t size = most;; size = std::max(size / 2, n)) {
      if (total_ + size > kMaxBytesRead) return false;
      bytes_.resize(size);
      begin_ = address;
      total_ += size;
      if (memory_.read(address, bytes_).ok()) return true;
      total_ -= size;
      bytes_.clear();
      if (size == n) return false;
    }
  }

  const MemoryReader& memory_;
  const std::span<const Mapping> mappings_;
  std::uint64_t begin_ = 0;
  std::uint64_t total_ = 0;
  std::vector<std::byte> bytes_;
};

// Reads the descriptor at address and advances address; false if it is malformed or unreadable.
bool take_descriptor(Window& window, std::uint64_t& address, FrameDescriptor& out) {
  std::uint16_t num_live = 0;
  const std::byte* header = window.at(address, kHeaderBytes);
  if (header == nullptr) return false;
  std::memcpy(&out.return_address, header, 8);
  std::memcpy(&out.frame_size, header + 8, 2);
  std::memcpy(&num_live, header + 10, 2);
  out.address = address;
  if (out.return_address < kMinAddress || out.return_address >= FrameDescriptor::kAddressLimit)
    return false;
  std::uint64_t next = address + kHeaderBytes + 2ull * num_live;
  if (!out.ends_chunk()) {
    std::uint8_t num_allocs = 1;
    if ((out.frame_size & 2) != 0) {
      if (!window.get(next, num_allocs)) return false;
      next += 1ull + num_allocs;
    }
    if ((out.frame_size & 1) != 0) next = align_up(next, 4) + 4ull * num_allocs;
  }
  address = align_up(next, 8);
  return true;
}

// Collects descriptors as they are read.
class Collector {
 public:
  Collector(SharedBudget budget, std::uint64_t max) : max_(max), charge_(std::move(budget)) {}

  // Returns false if there is no room for another one.
  bool add(const FrameDescriptor& descriptor) {
    if (descriptors_.size() >= max_) return false;
    full_ = !make_room();
    if (!full_) descriptors_.push_back(descriptor);
    return !full_;
  }
  // True if the budget had no room.
  bool full() const { return full_; }
  FrameTable finish() && { return FrameTable(std::move(descriptors_), std::move(charge_)); }

 private:
  // Charges for both copies of the vector while it grows by half.
  bool make_room() {
    constexpr std::size_t kFirst = 4096;
    const std::size_t now = descriptors_.capacity();
    if (descriptors_.size() < now) return true;
    const std::size_t next = now + std::max(now / 2, kFirst);
    if (!charge_.grow(next * sizeof(FrameDescriptor))) return false;
    descriptors_.reserve(next);
    charge_.shrink_to(next * sizeof(FrameDescriptor));
    return true;
  }

  const std::uint64_t max_;
  bool full_ = false;
  ByteCharge charge_;
  std::vector<FrameDescriptor> descriptors_;
};

// Appends the descriptors of a table. Returns the number of descriptors that are missing.
std::uint64_t read_one_table(Window& window, std::uint64_t table, Collector& out) {
  std::uint64_t count = 0;
  if (!window.get(table, count)) return 1;
  std::uint64_t address = table + sizeof count;
  for (std::uint64_t i = 0; i < count; ++i) {
    FrameDescriptor descriptor;
    if (!take_descriptor(window, address, descriptor) || !out.add(descriptor)) {
      return std::min(count - i, kMaxDescriptors);  // the count itself may be garbage
    }
  }
  return 0;
}

// Returns the number of duplicates. Sorts in place, because a hostile program may have millions.
std::uint64_t sort_and_unify(std::vector<FrameDescriptor>& descriptors) {
  std::sort(descriptors.begin(), descriptors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.return_address, a.address) < std::pair(b.return_address, b.address);
  });
  const auto same = [](const auto& a, const auto& b) {
    return a.return_address == b.return_address;
  };
  const auto end = std::unique(descriptors.begin(), descriptors.end(), same);
  const auto twice = static_cast<std::uint64_t>(descriptors.end() - end);
  descriptors.erase(end, descriptors.end());
  return twice;
}

}  // namespace

FrameTable::FrameTable() : FrameTable(std::vector<FrameDescriptor>()) {}

FrameTable::FrameTable(std::vector<FrameDescriptor> descriptors, ByteCharge charge) {
  skipped = sort_and_unify(descriptors);
  contents_ = std::make_shared<const Contents>(Contents{std::move(descriptors), std::move(charge)});
}

const FrameDescriptor* FrameTable::find(std::uint64_t return_address) const {
  const auto it = std::lower_bound(
      descriptors().begin(), descriptors().end(), return_address,
      [](const FrameDescriptor& d, std::uint64_t a) { return d.return_address < a; });
  return it != descriptors().end() && it->return_address == return_address ? &*it : nullptr;
}

absl::StatusOr<FrameTable> read_frame_table(const MemoryReader& memory,
                                            std::span<const Mapping> mappings,
                                            std::uint64_t caml_frametable,
                                            const SharedBudget& budget) {
  Window list(memory, mappings);
  std::vector<std::uint64_t> tables;
  bool cut = false;
  for (std::uint64_t i = 0; i < kMaxTables; ++i) {
    std::uint64_t table = 0;
    cut = !list.get(caml_frametable + 8 * i, table);
    if (cut || table == 0) break;
    tables.push_back(table);
  }
  FrameTable frames = read_frame_tables(memory, mappings, tables, budget);
  if (cut) ++frames.skipped;
  if (frames.descriptors().empty()) {
    return absl::DataLossError("the program's frame tables are empty or unreadable");
  }
  return frames;
}

FrameTable read_frame_tables(const MemoryReader& memory, std::span<const Mapping> mappings,
                             std::span<const std::uint64_t> tables, const SharedBudget& budget,
                             std::uint64_t max_descriptors) {
  Window window(memory, mappings);
  Collector descriptors(budget, max_descriptors);
  std::uint64_t skipped = 0, without_room = 0;
  for (const std::uint64_t table : tables) {
    const std::uint64_t missing = read_one_table(window, table, descriptors);
    skipped += missing;
    if (descriptors.full()) without_room += missing;
  }
  if (budget != nullptr) budget->count_refused(without_room);
  FrameTable frames = std::move(descriptors).finish();
  frames.skipped += skipped;
  frames.without_room = without_room;
  return frames;
}

}  // namespace memprofd
