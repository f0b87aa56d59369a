// SPDX-License-Identifier: Apache-2.0
// One snapshot in memory, for queries: every block of a heap that is not known to be dead, the
// pointers, the roots, and the sampled blocks. It contains no addresses, and contents of blocks
// only if they were requested.
//
// Code that makes an image must obey the rules below, because queries rely on them. Arrays are
// flat, because there are tens of millions of blocks: 6 bytes each, and 5 for a pointer.
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
  std::int64_t unix_ns = 0;   // time of the snapshot
  std::uint64_t pause_ns = 0;
  double sampling_rate = 0;      // samples per word; 0: nothing was sampled
  std::uint64_t heap_words = 0;  // size of the major heap, according to the runtime
  // No block outside of minor heaps has been garbage for longer, because the last finished major
  // collection would have found it. 0: unknown.
  std::uint64_t longest_wait_ns = 0;
  bool complete = true;  // false: the file was truncated, so data is missing
};

// Names of blocks whose tag only shows that they are abstract.
inline constexpr std::string_view kEphemeronName = "ephemeron";
inline constexpr std::string_view kWeakArrayName = "weak array";  // or an ephemeron without data

// Properties that blocks share. Each shape exists once; there are hundreds or thousands of shapes.
struct BlockShape {
  std::uint8_t tag = 0;
  // Index of a text: a closure's function, a custom block's identifier, the kind of an abstract
  // block; 0: none.
  std::uint32_t name = 0;
  std::uint64_t words = 0;  // header included
  // Index in sites of the stack of a continuation's fiber, one location per frame; kNoSite:
  // unknown, or not a continuation.
  static constexpr std::uint32_t kNoSite = ~0u;
  std::uint32_t site = kNoSite;
  // Native memory that each block holds, according to its kind: a Bigarray's elements, a channel's
  // buffer. HeapImage::outside_bytes() has the total.
  std::uint64_t outside_bytes = 0;
  std::uint32_t type = 0;  // index in HeapImage::types; 0: unknown

  friend bool operator==(const BlockShape&, const BlockShape&) = default;
};

enum class RootKind : std::uint8_t {
  kGlobal,         // a module's block: owner is the module ("Cache"), field counts from 0
  kDynamicGlobal,  // likewise for a module that was loaded at run time
  kStack,          // owner is the thread ("thread 4242", "fiber", "domain 1"), place is the frame's
  kLocalC,         // registered by C code for a call (CAMLparam)
  kGlobalC,        // permanently registered by C code; owner is the file that contains the slot
  kFinaliser,      // functions of Gc.finalise, and values whose finaliser is pending
  kMemprof,        // callstacks and values that Memprof itself holds
  kOther,
  kMarked,  // held by Memprof_values for the program; owner is its name there
};
inline constexpr int kRootKinds = 9;

struct RootName {
  static constexpr std::uint32_t kNoField = ~0u;

  RootKind kind = RootKind::kOther;
  std::string owner;               // empty: unknown
  std::uint32_t field = kNoField;  // field of a module's block
  Location place = {};             // function, file, line; empty function: unknown
  // Name of the field in the source, "table", "Sessions.all" for an inner module; valid UTF-8,
  // unique in its owner. Empty: unknown.
  std::string label = {};

  friend bool operator==(const RootName&, const RootName&) = default;
};

struct ImageRoot {
  std::uint32_t block = 0;  // always a block of the image
  std::uint32_t name = 0;   // index in root_names, which has no duplicates
};

struct SampledBlock {
  std::uint32_t block = 0;      // kNoBlock: found dead by the collector, or without an address
  std::uint32_t samples = 0;    // at least 1
  std::uint64_t sample_id = 0;  // equal numbers in two snapshots of one session mean the same block
  std::uint32_t site = 0;       // index in sites
  static constexpr std::uint64_t kNoAge = ~std::uint64_t{0};
  std::uint64_t age_ns = kNoAge;  // time since its allocation; kNoAge: unknown
};

// A key of an ephemeron, or an element of a weak array: a pointer that does not keep its target
// alive.
struct WeakPointer {
  std::uint32_t block = 0;   // block that contains the pointer
  std::uint32_t target = 0;  // always a block of the image

  friend bool operator==(const WeakPointer&, const WeakPointer&) = default;
};

// Contents of a string or a float array, if they were requested.
struct BlockContents {
  std::uint32_t block = 0;
  std::uint32_t kept = 0;    // number of known bytes, from the first on
  std::uint64_t length = 0;  // in bytes
  std::uint64_t begin = 0;   // in HeapImage::content_bytes
};
// Strings of one size are equal if their fingerprints are.
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
  std::string name;          // "string list", "Shop.order", "Shop.shape.Circle"; empty: unknown
  bool is_array = false;     // all fields are of the same type
  bool is_function = false;  // the name describes argument and result of a closure
  std::uint64_t fields = 0;  // 0: it varies
  std::vector<std::string> labels = {};  // labels of a record's fields, valid UTF-8; or empty
};

// The interfaces that a program was linked with: digests by unit names. Empty: unknown.
using InterfaceDigests = std::map<std::string, std::string>;
inline constexpr std::size_t kDigestBytes = 16;
inline constexpr std::size_t kMaxUnitName = 1024;
inline constexpr std::size_t kMaxLinkedUnits = 1 << 16;

// Counts of types that were assigned to an image's blocks, and of those that were refused.
struct TypingResult {
  std::uint64_t disagreed = 0;  // cases in which a block could not have the type, or already had
                                // another one
  std::uint32_t modules = 0;    // modules with roots and with files
  std::uint32_t modules_without_files = 0;
  bool out_of_time = false;  // some files were not read in time
  // Units whose files were skipped because they belong to another build: by name, valid UTF-8.
  std::vector<std::string> other_builds = {};
  bool unverified =
      false;  // files were taken without a digest in the program to compare theirs with

  // Sampled blocks, by the source expression at their allocation site.
  std::uint64_t by_site = 0;      // blocks that got their type from it
  std::uint64_t sites_unfit = 0;  // blocks that do not match it, or that match several expressions
  std::uint64_t sites_disagreed = 0;  // blocks that have another type, found through a module
};

// Native memory of a block in malloc chunks that it leads to; each chunk belongs to one block.
struct ChunkBytes {
  std::uint64_t bytes = 0;     // in addition to the size from the block's shape
  std::uint64_t resident = 0;  // resident part of all its memory

  friend bool operator==(const ChunkBytes&, const ChunkBytes&) = default;
};

// Blocks and root names together are fewer than 2^32 - 2^24, and so are pointers and roots.
struct HeapImage {
  static constexpr std::uint32_t kNoBlock = BlockIndex::kNone;
  // The pointer is in field 255 or a later one. Pointers on the stack of a fiber come after the
  // fields of its continuation, by frame, the innermost first.
  static constexpr std::uint8_t kFarField = 255;

  ImageInfo info;
  std::vector<std::string> texts{""};  // valid UTF-8; number 0 is no name
  std::vector<BlockShape> shapes;

  // Indexed by block, in address order.
  std::vector<std::uint32_t> shape_of;  // index in shapes
  EdgeLists edges;  // first has one entry more than there are blocks, even without blocks
  std::vector<std::uint8_t> fields;  // field of each entry in edges.to; ascending within a block,
                                     // from 0
  std::vector<BlockRange> young;     // blocks of minor heaps

  // Keyed by block; only blocks that lead to malloc chunks.
  absl::flat_hash_map<std::uint32_t, ChunkBytes> chunk_bytes;

  // Ordered by block; only blocks with weak pointers. The data of an ephemeron is among edges if
  // its keys are reachable, so edges alone show what the collector would keep.
  std::vector<WeakPointer> weak;

  SizeTable dead;  // blocks that the collector has found dead and not swept
  SizeTable free;  // free blocks and slots by total size, including the header, under tag 0
  std::uint64_t fragments = 0;  // OCaml 4: single words between blocks

  std::vector<RootName> root_names;
  std::vector<ImageRoot> roots;

  // Ordered by block; only some blocks have entries.
  std::vector<BlockContents> contents;
  std::vector<BlockFingerprint> fingerprints;
  std::vector<BufferUse> buffers;
  std::string content_bytes;

  std::vector<SampledBlock> sampled;
  std::vector<Location> locations;
  // Callstacks of locations, innermost first: those of sampled blocks and of fibers.
  std::vector<std::vector<std::uint32_t>> sites;
  SiteFrame site_frame = SiteFrame::kInnermost;  // frame by which answers name sites

  InterfaceDigests interfaces;

  // Types of the source, if available (snapshot/types/): number 0 is unknown.
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
  // Native memory that a block holds.
  std::uint64_t outside_bytes(std::uint32_t block) const {
    return shape(block).outside_bytes + chunks_of(block).bytes;
  }
  ChunkBytes chunks_of(std::uint32_t block) const {
    const auto held = chunk_bytes.empty() ? chunk_bytes.end() : chunk_bytes.find(block);
    return held == chunk_bytes.end() ? ChunkBytes() : held->second;
  }
};

}  // namespace memprofd
