// SPDX-License-Identifier: Apache-2.0
// Writes a heap into a file (heap_file_format.h) during the walk over it. Uses constant memory,
// except for names and shapes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "daemon/model/location.h"
#include "daemon/snapshot/file/contents_writer.h"
#include "daemon/snapshot/file/file_bytes.h"
#include "daemon/snapshot/file/heap_file_format.h"
#include "daemon/snapshot/file/heap_regions.h"
#include "daemon/snapshot/file/pointer_guess.h"
#include "daemon/snapshot/heap_census.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/snapshot/heap_map.h"
#include "daemon/snapshot/heap_walk.h"

namespace memprofd {

// Pointers on the stack of a waiting fiber, and on the stacks of the fibers to which it returns.
struct FiberStack {
  struct Held {
    std::uint32_t frame = 0;
    std::uint64_t value = 0;
  };
  std::vector<Location> frames;  // innermost first
  std::vector<Held> held;        // by frame
};

// The program's ephemerons and weak arrays.
struct Ephemerons {
  absl::flat_hash_set<std::uint64_t> blocks;  // addresses of their headers
  std::uint64_t nothing = 0;                  // value of a place without data or key
};

// Meaning of certain words of blocks in the program; an empty function: unknown.
struct WordNames {
  std::function<std::string(std::uint64_t code)> function;      // name of a closure's code
  std::function<std::string(std::uint64_t operations)> custom;  // identifier of a custom block
  // Memory that a block holds outside of the heap (outside_bytes.h); may be 0.
  std::function<std::uint64_t(std::span<const std::uint64_t> fields)> outside;
  // Takes the first field of a continuation, in OCaml 5; returns nothing if it has been continued.
  std::function<std::optional<FiberStack>(std::uint64_t word)> fiber;
};

// Call order: begin, roots and samples, the walk with this object as its visitor, end. After an
// error of the sink, further data is dropped.
class HeapFileWriter {
 public:
  // Receives whole pieces.
  using Sink = std::function<absl::Status(std::string_view bytes)>;

  HeapFileWriter(Sink sink, WordNames names)
      : sink_(std::move(sink)), word_names_(std::move(names)) {}

  // Facts that are known before the walk; the map outlives the writer.
  void begin(const ImageInfo& info, const HeapMap& map);
  // Adds the program's interfaces; call it after begin().
  void add_interfaces(const InterfaceDigests& interfaces);
  // Stores contents, too. Walks must then be of kWholeContents.
  void keep(ContentsWriter contents) { contents_ = std::move(contents); }
  // The last block is a Buffer.t with this number of bytes in use.
  void add_buffer(std::uint64_t used) { contents_.add_buffer(blocks_put_ - 1, used); }
  // Abstract blocks that are not among these ephemerons hold nothing.
  void know(Ephemerons ephemerons) { ephemerons_ = std::move(ephemerons); }
  // Skips a value outside of the heap, because it is no root.
  void add_root(std::uint64_t value, const RootName& name);
  // Adds a callstack, innermost frame first, and returns its number.
  std::uint32_t add_site(const std::vector<Location>& callstack);
  // value: of the block; 0: the block is gone.
  void add_sample(std::uint64_t value, std::uint64_t sample_id, std::uint32_t samples,
                  std::uint32_t site, std::uint64_t age_ns = SampledBlock::kNoAge);

  // Adds an assertion of the program; its number is the number of earlier ones.
  void add_assertion(const HeapAssertion& assertion);
  // Adds a marked value, and the other value of kOther; both lie in the heap.
  void add_mark(std::uint32_t assertion, std::uint64_t value, AssertionMark::Until until,
                std::uint64_t other);

  // The visitor of a walk.
  void operator()(const HeapRegion& region, const BlockPart& part);

  // Call it after the walk. block: address of the header.
  void add_outside(std::uint64_t block, const ChunkBytes& held);
  // True if a value points into a region of the heap.
  bool in_heap(std::uint64_t value) { return heap_regions_.contain(value); }
  bool is_ephemeron(std::uint64_t block) const { return ephemerons_.blocks.contains(block); }

  // Completes the file. census: that of the walk.
  absl::Status end(const HeapCensus& census);
  // The sink's first error.
  const absl::Status& status() const { return status_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Shape {
    std::uint8_t tag = 0;
    ShapeForm form = ShapeForm::kMasked;
    std::uint32_t name = 0;
    std::uint64_t words = 0;
    std::uint32_t mask = 0;
    std::uint32_t site = 0;  // site of a fiber + 1; 0: none
    std::uint64_t outside_bytes = 0;

    friend bool operator==(const Shape&, const Shape&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Shape& s) {
      return H::combine(std::move(h), s.tag, s.form, s.name, s.words, s.mask, s.site,
                        s.outside_bytes);
    }
  };
  struct DefinedShape {
    static constexpr std::uint32_t kNoGuesses = ~0u;  // the form is not kGuessed

    std::uint64_t number = 0;            // as in kBlocks
    std::uint32_t guesses = kNoGuesses;  // index of the guess for its first pointer
  };
  // A shape that was written before, by its distinguishing fields: most blocks have one of a few
  // shapes.
  struct KnownShape {
    std::uint64_t header = 0;  // without its colour
    std::uint64_t code = 0;    // code of a closure
    std::uint32_t mask = 0;
    DefinedShape shape;
  };
  static constexpr std::size_t kKnownShapes = 1024;
  struct Piece {
    PieceKind kind;
    FileBytesWriter bytes;
  };

  void put_regions(const HeapMap& map);
  void put_counts(const HeapCensus& census);
  void put_piece(PieceKind kind, std::string_view payload);
  void flush(Piece& piece);
  void flush_names();
  void flush_blocks();
  void flush_if_full(Piece& piece);
  void flush_samples();
  void flush_marks();
  void flush_contents(std::size_t least);
  std::uint32_t text(std::string_view text);
  std::uint32_t location(const Location& location);
  std::uint32_t root_name(const RootName& name);
  std::uint32_t word_name(const BlockPart& part);
  std::uint64_t outside_bytes(const BlockPart& part);
  DefinedShape shape(const Shape& shape);
  DefinedShape masked_shape(const BlockPart& part, std::uint32_t mask);
  DefinedShape new_masked_shape(const BlockPart& part, std::uint32_t mask);
  // Place of the block to which a value points.
  static std::uint64_t place_of(std::uint64_t value) { return value / kWordBytes - 1; }
  void put_place(Piece& piece, std::uint64_t value, std::uint64_t& before);

  void begin_region(const HeapRegion& region);
  void put_gap();
  void put_pointer(std::uint64_t value);
  bool put_masked(const BlockPart& part);
  void put_listed(const BlockPart& part);
  bool put_fiber(const BlockPart& part);
  bool put_weak(const BlockPart& part);
  std::uint32_t add_site_of(const std::vector<std::uint32_t>& locations);
  std::uint32_t fiber_site(const std::vector<Location>& frames);
  void put_fields(const BlockPart& part);
  void end_list();

  const Sink sink_;
  const WordNames word_names_;
  absl::Status status_;
  std::uint64_t bytes_ = 0;

  Ephemerons ephemerons_;
  ContentsWriter contents_;

  HeapRegions heap_regions_;

  // Each piece is written before the pieces that refer to it.
  Piece texts_{PieceKind::kTexts, {}};
  Piece locations_{PieceKind::kLocations, {}};
  Piece names_{PieceKind::kNames, {}};
  Piece roots_{PieceKind::kRoots, {}};
  Piece sites_{PieceKind::kSites, {}};
  Piece samples_{PieceKind::kSamples, {}};
  Piece ages_{PieceKind::kAges, {}};
  Piece shapes_{PieceKind::kShapes, {}};
  Piece blocks_{PieceKind::kBlocks, {}};
  Piece outside_{PieceKind::kOutside, {}};
  Piece assertions_{PieceKind::kAssertions, {}};
  Piece marks_{PieceKind::kMarks, {}};
  absl::flat_hash_map<std::string, std::uint32_t> text_numbers_;
  absl::flat_hash_map<Location, std::uint32_t> location_numbers_;
  absl::flat_hash_map<std::tuple<int, std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t>
      name_numbers_;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> word_texts_;  // by code or operations
  absl::flat_hash_map<Shape, DefinedShape> shape_numbers_;
  std::vector<PointerGuess> guesses_;
  std::size_t masked_shapes_ = 0;
  std::vector<KnownShape> known_shapes_ = std::vector<KnownShape>(kKnownShapes);
  absl::flat_hash_set<std::uint64_t> outside_sizes_;
  std::uint32_t sites_added_ = 0;
  absl::flat_hash_map<std::vector<std::uint32_t>, std::uint32_t> fiber_sites_;  // by locations
  std::uint64_t last_root_ = 0;     // previous one in the piece
  std::uint64_t last_sample_ = 0;   // likewise
  std::uint64_t last_outside_ = 0;  // likewise
  std::uint64_t last_mark_ = 0;     // likewise

  const HeapRegion* region_ = nullptr;
  std::uint64_t gap_ = 0;         // words without a block that are not written yet
  bool in_list_ = false;          // the previous block lists its pointers
  std::uint64_t last_field_ = 0;  // last field of that list, from 1
  std::uint64_t last_place_ = 0;  // place of the last pointer or block
  std::uint64_t blocks_put_ = 0;
  std::uint64_t pointers_put_ = 0;
};

}  // namespace memprofd
