// SPDX-License-Identifier: Apache-2.0
// Caches memory of a program, page by page, so that neighbouring data costs one read. Touches only
// the program's own memory and its file, because a page of any other file may never arrive.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/discover/target.h"
#include "daemon/discover/target_memory.h"

namespace memprofd {

class PageCache final : public MemoryReader {
 public:
  // Pages kept at most; further ones cannot be read until forget().
  static constexpr std::size_t kMaxPages = 4096;
  static constexpr std::uint64_t kPageBytes = 4096;

  // memory outlives it. Nothing can be read before set_mappings().
  explicit PageCache(const MemoryReader& memory) : memory_(memory) {}

  // mappings: in order; image: range of the program's own file. Returns true if more, less or other
  // memory may be read than before.
  bool set_mappings(std::span<const Mapping> mappings, const AddressRange& image);
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override;
  // Reads the pages of these addresses in few steps, in their order, as long as they may be read
  // and there is room.
  void fetch(std::span<const std::uint64_t> addresses) const;
  // The same for callers that only check whether data is unchanged, until forget() (peek_pieces):
  // reads of each page only the part from the first to the last of the ranges.
  void peek(std::span<const AddressRange> ranges) const;
  // Reads twice, with other pieces before and after, all in this order and in one request if there
  // is room. Until show_second(), reads return the first result. Returns false if some ranges could
  // not be read.
  bool peek_twice(std::span<const AddressRange> ranges, std::span<const MemoryPiece> before,
                  std::span<const MemoryPiece> after);
  void show_second();
  // From now on missing pages are recorded instead of read, and reading them is an error.
  void only_note(bool notes) { notes_ = notes; }
  std::size_t noted() const { return noted_.size(); }
  // Reads the recorded pages, as fetch() does.
  void fetch_noted();
  // Later reads belong to a later moment.
  void forget();
  bool full() const { return pages_.size() >= kMaxPages; }
  // True if memory outside of the known mappings was requested since forget(); the program may have
  // mapped it meanwhile.
  bool missed() const { return missed_; }
  // True if memory did not answer since forget(): its contents are unknown.
  bool was_late() const { return was_late_; }

 private:
  using Page = std::array<std::byte, kPageBytes>;

  std::unique_ptr<Page> new_page() const;
  // Null: it cannot be read.
  const Page* page_at(std::uint64_t begin) const;
  void add_slices(std::span<const AddressRange> ranges) const;
  void add_slice(std::uint64_t page, std::uint64_t begin, std::uint64_t end) const;
  void make_room_for_slices(std::size_t times) const;
  // Pieces that read the slices into slice_bytes_ at that place; returns the place after them.
  std::size_t add_pieces(std::size_t place, std::vector<MemoryPiece>& pieces) const;
  void read_slices() const;

  bool may_read(std::uint64_t page) const;
  // Null if not all of it was peeked. The range lies within a page.
  const std::byte* peeked(std::uint64_t address, std::size_t bytes) const;

  static constexpr std::size_t kNoSlice = static_cast<std::size_t>(-1);
  // The part of a page that was peeked.
  struct Slice {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    const std::byte* bytes = nullptr;  // null: it is not there
  };
  // One of the most recently used pages.
  struct Recent {
    std::uint64_t begin = ~std::uint64_t{0};
    const Page* page = nullptr;
  };

  const MemoryReader& memory_;
  std::vector<AddressRange> ranges_;  // in order, apart from each other
  mutable bool missed_ = false;
  mutable bool was_late_ = false;
  bool notes_ = false;
  mutable std::vector<std::uint64_t> noted_;  // pages, in the order in which they were wanted
  mutable absl::flat_hash_map<std::uint64_t, std::unique_ptr<Page>> pages_;  // null: unreadable
  mutable std::array<Recent, 8> recent_;                                     // by place
  mutable absl::flat_hash_map<std::uint64_t, std::size_t> slice_of_;         // by page, or kNoSlice
  mutable std::vector<Slice> slices_;
  mutable std::vector<std::byte> slice_bytes_;
  std::size_t second_ = 0;                            // start of the second read in those
  mutable std::vector<std::unique_ptr<Page>> spare_;  // memory of forgotten pages
};

}  // namespace memprofd
