// SPDX-License-Identifier: Apache-2.0
// A heap in a file: pieces, each with its length and checksum, written one behind the other while
// the heap is walked. A file that was cut off is good up to its last whole piece.
//
//     "MPRFHEAP" | version u32 | piece | piece | ..              little-endian
//     piece:  kind u32 | bytes u32 | crc32 of both and the payload u32 | payload
//
// What a payload has is numbers and texts of file_bytes.h. Numbers of texts, locations, shapes and
// names count from 0 (texts: from 1, 0 is no text) through the whole file; each is defined before
// it is used. Places in the heap are words: an address divided by 8, of a block the header's.
//
//     kHead       what ImageInfo has, the longest wait since version 3; the first piece
//     kRegions    begin (from the end before), words, kind, slot words: where blocks may be
//     kTexts      texts
//     kLocations  function, file, line, columns, library: texts and numbers
//     kNames      kind, owner, field + 1, location + 1 of roots
//     kRoots      name, place that is held (from the one before)
//     kSites      callstacks: number of locations, locations
//     kSamples    site, sample, number of samples, whether a place follows, place
//     kAges       of samples in their order, since version 3: microseconds + 1; 0: not known
//     kShapes     tag, form, name (a text), words; of the forms kMasked and kGuessed the fields
//     that
//                 point, of kFiber site + 1; of custom blocks the bytes that each holds outside of
//                 the heap
//     kBlocks     what is in the regions, see below
//     kOutside    since version 3: place of a block (from the one before); what chunks of malloc
//                 it has: bytes beyond what its shape tells, bytes of all that are resident
//     kContents, kFingerprints, kBuffers  since version 4, where somebody asked for them: number of
//     a
//                 block (from the one before in the piece), and of a string or a float array how
//                 many bytes it has and those of them that were kept; or the fingerprint of a
//                 string, u64; or how many bytes are in use of a Buffer.t
//     kInterfaces since version 6: name and digest of the interface of each compilation unit that
//                 the program was linked with, two texts
//     kCounts     what is not in kBlocks: free and dead blocks by size, fragments
//     kEnd        how many blocks and pointers there were: the file is complete
//
// kBlocks is one stream, cut into pieces anywhere between two items. It goes through the regions
// word by word:
//
//     0, n            n words without a block
//     s + 1, ..       a block of shape s, and what it points to: the distance of each place from
//                     the block, of the next ones from the pointer before.
//                     kMasked: one for each field of the mask (up to 32 fields)
//                     kGuessed: likewise, each from where pointer_guess.h says; since version 5
//                     kListed: the field (from the one before), then the distance; 0 ends it
//                     kFiber: 1 + the frame (from the one before), likewise
//                     kWeak: as kListed, of an ephemeron: field 1 is its data, those behind its
//                     keys
//
// In a region of slots a block takes its slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace memprofd {

inline constexpr std::string_view kHeapFileMagic = "MPRFHEAP";
inline constexpr std::uint32_t kHeapFileVersion = 6;
// The oldest version that can be read. Version 1 has no kWeak, version 2 neither kAges nor
// kOutside, version 3 no contents of blocks, version 4 no kGuessed, version 5 no kInterfaces.
inline constexpr std::uint32_t kOldestHeapFileVersion = 1;
inline constexpr std::size_t kHeapFileStartBytes = 12;

enum class PieceKind : std::uint32_t {
  kHead = 1,
  kRegions,
  kTexts,
  kLocations,
  kNames,
  kRoots,
  kSites,
  kSamples,
  kShapes,
  kBlocks,
  kCounts,
  kEnd,
  kAges,
  kOutside,
  kContents,
  kFingerprints,
  kBuffers,
  kInterfaces,
};
inline constexpr PieceKind kLastPieceKind = PieceKind::kInterfaces;

// Kind of a row of kCounts; tag, size and number follow, as in HeapImage.
enum class CountKind : std::uint8_t { kDead, kFree, kFragments };

// kFiber: a continuation, which holds what is on a stack outside of the heap. kWeak: an ephemeron
// or a weak array.
enum class ShapeForm : std::uint8_t { kMasked, kListed, kFiber, kWeak, kGuessed };
constexpr bool has_mask(ShapeForm form) {
  return form == ShapeForm::kMasked || form == ShapeForm::kGuessed;
}
// Fields of these: the next one in the runtime's list, data, keys.
inline constexpr std::uint64_t kEphemeronData = 1;
inline constexpr std::uint64_t kFirstKey = 2;
// Blocks of more fields list those that point.
inline constexpr std::uint64_t kMaskedFields = 32;
// Forms of small blocks beyond so many are listed too: a heap may have any number.
inline constexpr std::size_t kMaxMaskedShapes = 1u << 16;

inline constexpr std::size_t kPieceHeadBytes = 12;
// A reader takes no larger one; a writer makes them of a quarter of that.
inline constexpr std::size_t kMaxPieceBytes = 1u << 20;
inline constexpr std::size_t kPieceBytes = kMaxPieceBytes / 4;
// Longer texts and callstacks are cut.
inline constexpr std::size_t kMaxTextBytes = 4096;
inline constexpr std::size_t kMaxSiteLocations = 4096;
// Frames of a fiber that are told apart, and stacks that are kept.
inline constexpr std::uint32_t kMaxFiberFrames = 1u << 20;
inline constexpr std::size_t kMaxFiberSites = 1u << 14;
// Custom blocks of so many different sizes outside of the heap are told by theirs; those of further
// ones by the next power of two.
inline constexpr std::size_t kMaxOutsideSizes = 1u << 14;
// Limits for the contents of one block, and in all.
inline constexpr std::size_t kMaxContentBytes = 1u << 16;
inline constexpr std::uint64_t kMostContentBytes = std::uint64_t{1} << 30;
// Functions and identifiers that are looked for.
inline constexpr std::size_t kMaxWordNames = 1u << 18;

// Over a piece's kind, length and payload.
std::uint32_t piece_checksum(std::string_view kind_and_bytes, std::string_view payload);

}  // namespace memprofd
