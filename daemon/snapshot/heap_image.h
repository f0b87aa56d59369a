// SPDX-License-Identifier: Apache-2.0
// One snapshot in memory, for questions: every block of a heap that is not known to be dead, the
// pointers, the roots, and the sampled blocks. It has no addresses, and contents of blocks only if
// they were requested.
//
// The rules below bind the code that makes an image; questions rely on them. Flat arrays, because
// there are tens of millions of blocks: 6 bytes each, and 5 for a pointer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/model/location.h"
#include "daemon/model/query.h"
#include "daemon/snapshot/heap_assertion.h"
#include "daemon/snapshot/heap_graph.h"
#include "daemon/snapshot/size_table.h"

namespace memprofd {

struct ImageInfo {
  std::string program;  // path of the executable
  std::uint32_t pid = 0;
  std::string ocaml_version;  // "5.3.0"
  std::int64_t unix_ns = 0;   // when the heap was like this
  std::uint64_t pause_ns = 0;
  double sampling_rate = 0;      // samples a word; 0: nothing was sampled
  std::uint64_t heap_words = 0;  // all of the major heap, by the runtime's own count
  // No block outside of minor heaps has been garbage for longer: the last major collection that has
  // ended would have found it. 0: not known.
  std::uint64_t longest_wait_ns = 0;
  bool complete = true;  // false: the file was truncated, so data is missing
};

// Names of blocks whose tag only shows that they are abstract.
inline constexpr std::string_view kEphemeronName = "ephemeron";
inline constexpr std::string_view kWeakArrayName = "weak array";  // or an ephemeron without data

// Properties that blocks share; each shape exists once. There are hundreds or thousands of shapes.
struct BlockShape {
  std::uint8_t tag = 0;
  // A number of texts: a closure's function, a custom block's identifier, what an abstract one is;
  // 0: none.
  std::uint32_t name = 0;
  std::uint64_t words = 0;  // header included
  // Index in sites of the stack of a continuation's fiber, one location per frame; kNoSite:
  // unknown, or not a continuation.
  static constexpr std::uint32_t kNoSite = ~0u;
  std::uint32_t site = kNoSite;
  // Memory that each block holds outside of the heap, by its kind: a Bigarray its elements, a
  // channel its buffer. HeapImage::outside_bytes() has the total.
  std::uint64_t outside_bytes = 0;
  std::uint32_t type = 0;  // of HeapImage::types; 0: not known

  friend bool operator==(const BlockShape&, const BlockShape&) = default;
};

enum class RootKind : std::uint8_t {
  kGlobal,         // a module's block: owner is the module ("Cache"), field counts from 0
  kDynamicGlobal,  // the same of a module that was loaded at run time
  kStack,          // owner is the thread ("thread 4242", "fiber", "domain 1"), place is the frame's
  kLocalC,         // registered by C code for a call (CAMLparam)
  kGlobalC,        // registered by C code for good; owner is the file that has the slot
  kFinaliser,      // functions of Gc.finalise, values whose finaliser is to run
  kMemprof,        // callstacks and values that Memprof itself holds
  kOther,
  kMarked,  // Memprof_values holds it for the program; owner is the name it has there
};
inline constexpr int kRootKinds = 9;

struct RootName {
  static constexpr std::uint32_t kNoField = ~0u;

  RootKind kind = RootKind::kOther;
  std::string owner;               // empty: not known
  std::uint32_t field = kNoField;  // of a module's block
  Location place = {};             // function, file, line; empty function: not known
  // Name of the field in the source, "table", "Sessions.all" for an inner module; valid UTF-8,
  // unique in its owner. Empty: unknown.
  std::string label = {};

  friend bool operator==(const RootName&, const RootName&) = default;
};

struct ImageRoot {
  std::uint32_t block = 0;  // always a block of the image
  std::uint32_t name = 0;   // of root_names, in which nothing is twice
};

struct SampledBlock {
  std::uint32_t block = 0;      // kNoBlock: found dead by the collector, or without an address
  std::uint32_t samples = 0;    // at least 1
  std::uint64_t sample_id = 0;  // the same in another snapshot of the same session: the same block
  std::uint32_t site = 0;       // of sites
  static constexpr std::uint64_t kNoAge = ~std::uint64_t{0};
  std::uint64_t age_ns = kNoAge;  // since it was allocated; kNoAge: not known
};

// A key of an ephemeron, or an element of a weak array: what does not keep its target.
struct WeakPointer {
  std::uint32_t block = 0;   // that has it
  std::uint32_t target = 0;  // always a block of the image

  friend bool operator==(const WeakPointer&, const WeakPointer&) = default;
};

// Contents of a string or a float array, if they were requested.
struct BlockContents {
  std::uint32_t block = 0;
  std::uint32_t kept = 0;    // bytes that are known, from the first on
  std::uint64_t length = 0;  // in bytes
  std::uint64_t begin = 0;   // in HeapImage::content_bytes
};
// Strings of one size with the same one are equal.
struct BlockFingerprint {
  std::uint32_t block = 0;
  std::uint64_t value = 0;
};

// A block that is a Buffer.t.
struct BufferUse {
  std::uint32_t block = 0;
  std::uint64_t used = 0;  // bytes
};

// Blocks from first up to before end.
struct BlockRange {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

// Blocks of a type of the program's source: of a record, or of the arguments of one constructor.
struct BlockType {
  std::string name;          // "string list", "Shop.order", "Shop.shape.Circle"; empty: not known
  bool is_array = false;     // its fields are all alike
  bool is_function = false;  // the name describes argument and result of a closure
  std::uint64_t fields = 0;  // 0: they have different ones
  std::vector<std::string> labels = {};  // of a record's fields, valid UTF-8; or none
};

// The interfaces that a program was linked with: digests by the names of units. Empty: not known.
using InterfaceDigests = std::map<std::string, std::string>;
inline constexpr std::size_t kDigestBytes = 16;
inline constexpr std::size_t kMostUnitName = 1024;
inline constexpr std::size_t kMostLinkedUnits = 1 << 16;

// Counts of types that were assigned to an image's blocks, and of those that were refused.
struct TypingResult {
  std::uint64_t disagreed = 0;  // times that a block could not be of the type, or was of another
  std::uint32_t modules = 0;    // with roots and with files
  std::uint32_t modules_without_files = 0;
  bool out_of_time = false;  // some files were not waited for
  // Units whose files were passed over, because they are of another build: by name, valid UTF-8.
  std::vector<std::string> other_builds = {};
  bool unverified =
      false;  // files were taken without a digest in the program to compare theirs with

  // Sampled blocks, by what the source has where they were allocated.
  std::uint64_t by_site = 0;          // have their type from there
  std::uint64_t sites_unfit = 0;      // cannot be what stands there, or more than one thing does
  std::uint64_t sites_disagreed = 0;  // have another type, by way of a module
};

// Native memory of a block in chunks of malloc that it leads to; each chunk belongs to one block.
struct ChunkBytes {
  std::uint64_t bytes = 0;     // in addition to the size from the block's shape
  std::uint64_t resident = 0;  // part of all its memory that is resident

  friend bool operator==(const ChunkBytes&, const ChunkBytes&) = default;
};

// Blocks and root names together are fewer than 2^32 - 2^24, and so are pointers and roots.
struct HeapImage {
  static constexpr std::uint32_t kNoBlock = BlockIndex::kNone;
  // A pointer that stands in field 255 or a later one. What is on the stack of a fiber stands
  // behind the fields of its continuation, by frame, the innermost first.
  static constexpr std::uint8_t kFarField = 255;

  ImageInfo info;
  std::vector<std::string> texts{""};  // valid UTF-8; number 0 is no name
  std::vector<BlockShape> shapes;

  // Indexed by block, in the order of their addresses.
  std::vector<std::uint32_t> shape_of;  // of shapes
  EdgeLists edges;                      // first has one more than there are blocks, also for none
  std::vector<std::uint8_t> fields;     // of each of edges.to; never falling within a block, from 0
  std::vector<BlockRange> young;        // those of minor heaps

  // Keyed by block; only those that lead to chunks of malloc.
  absl::flat_hash_map<std::uint32_t, ChunkBytes> chunk_bytes;

  // Ordered by block; only those that have some. The data of an ephemeron is among edges if its
  // keys are reachable, so edges alone show what the collector would keep.
  std::vector<WeakPointer> weak;

  SizeTable dead;  // blocks that the collector has found dead and not swept
  SizeTable free;  // free blocks and slots by all their words, header included, under tag 0
  std::uint64_t fragments = 0;  // OCaml 4: words alone between blocks

  std::vector<RootName> root_names;
  std::vector<ImageRoot> roots;

  // Ordered by block; only some blocks.
  std::vector<BlockContents> contents;
  std::vector<BlockFingerprint> fingerprints;
  std::vector<BufferUse> buffers;
  std::string content_bytes;

  std::vector<SampledBlock> sampled;
  std::vector<Location> locations;
  // Callstacks of locations, innermost first: of sampled blocks and of fibers.
  std::vector<std::vector<std::uint32_t>> sites;
  SiteFrame site_frame = SiteFrame::kInnermost;  // by which answers name sites

  InterfaceDigests interfaces;

  // Types of the source, where they are at hand (snapshot/types/): number 0 is not known.
  std::vector<BlockType> types{1};
  TypingResult types_found;

  std::vector<HeapAssertion> assertions;
  std::vector<AssertionMark> marks;

  std::uint32_t type(std::uint32_t block) const { return shape(block).type; }
  bool has_types() const { return types.size() > 1; }
  std::string_view bytes_of(const BlockContents& of) const {
    return std::string_view(content_bytes).substr(of.begin, of.kept);
  }
  bool is_young(std::uint32_t block) const {
    return std::ranges::any_of(young, [block](const BlockRange& range) {
      return block >= range.first && block < range.end;
    });
  }
  std::uint32_t blocks() const { return static_cast<std::uint32_t>(shape_of.size()); }
  const BlockShape& shape(std::uint32_t block) const { return shapes[shape_of[block]]; }
  // Held outside of the heap.
  std::uint64_t outside_bytes(std::uint32_t block) const {
    return shape(block).outside_bytes + chunks_of(block).bytes;
  }
  ChunkBytes chunks_of(std::uint32_t block) const {
    const auto held = chunk_bytes.empty() ? chunk_bytes.end() : chunk_bytes.find(block);
    return held == chunk_bytes.end() ? ChunkBytes() : held->second;
  }
};

}  // namespace memprofd
