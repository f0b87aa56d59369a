// SPDX-License-Identifier: Apache-2.0
// A heap in a file: pieces, each with its length and checksum, written one after the other while
// the heap is walked. A truncated file is valid up to its last whole piece.
//
//     "MPRFHEAP" | version u32 | piece | piece | ..              little-endian
//     piece:  kind u32 | bytes u32 | crc32 of both and the payload u32 | payload
//
// A payload consists of numbers and texts (file_bytes.h). Texts, locations, shapes and names are
// numbered from 0 (texts: from 1, 0 is no text) through the whole file; each is defined before it
// is used. Places in the heap are in words: an address divided by 8, for a block that of its
// header.
//
//     kHead       the fields of ImageInfo, the longest wait since version 3; the first piece
//     kRegions    begin (from the previous end), words, kind, slot words: regions with blocks
//     kTexts      texts
//     kLocations  function, file, line, columns, library: texts and numbers
//     kNames      kind, owner, field + 1, location + 1 of roots
//     kRoots      name, place of the held block (from the previous one)
//     kSites      callstacks: number of locations, locations
//     kSamples    site, sample, number of samples, whether a place follows, place
//     kAges       of samples in their order, since version 3: microseconds + 1; 0: unknown
//     kShapes     tag, form, name (a text), words; for kMasked and kGuessed the fields that are
//                 pointers, for kFiber site + 1; for custom blocks the bytes that each holds
//                 outside of the heap
//     kBlocks     the contents of the regions, see below
//     kOutside    since version 3: place of a block (from the previous one); its chunks of malloc:
//                 bytes beyond those of its shape, and all resident bytes
//     kContents, kFingerprints, kBuffers
//                 since version 4, if requested: number of a block (from the previous one in the
//                 piece); then, of a string or a float array, its length and the bytes that were
//                 kept; or the fingerprint of a string, u64; or the bytes in use of a Buffer.t
//     kInterfaces since version 6: name and digest of the interface of each compilation unit that
//                 the program was linked with, two texts
//     kAssertions since version 7: kind, name (a text), whether it is whole, numbers of values that
//                 are not due and unchecked; of a region its bytes, and the ages of its start and
//                 end: microseconds
//     kMarks      since version 7: number of the assertion, place of the marked value (from the
//                 previous one), until when it may be reachable, perhaps the place of the other
//                 value (from the marked one)
//     kCounts     everything that is not in kBlocks: free and dead blocks by size, fragments
//     kEnd        numbers of blocks and pointers: the file is complete
//
// kBlocks is one stream, divided into pieces anywhere between two items. It goes through the
// regions word by word:
//
//     0, n            n words without a block
//     s + 1, ..       a block of shape s, and its targets: the distance of the first from the
//                     block, of the next ones from the previous target
//                     kMasked: one for each field of the mask (up to 32 fields)
//                     kGuessed: likewise, each from the guess of pointer_guess.h; since version 5
//                     kListed: the field (from the previous one), then the distance; 0 ends it
//                     kFiber: 1 + the frame (from the previous one), likewise
//                     kWeak: as kListed, for an ephemeron: field 1 is its data, the later ones
//                     its keys
//
// In a region of slots a block occupies a whole slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace memprofd {

inline constexpr std::string_view kHeapFileMagic = "MPRFHEAP";
inline constexpr std::uint32_t kHeapFileVersion = 7;
// The oldest version that can be read. Version 1 has no kWeak, version 2 neither kAges nor
// kOutside, version 3 no contents of blocks, version 4 no kGuessed, version 5 no kInterfaces,
// version 6 neither kAssertions nor kMarks.
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
  kAssertions,
  kMarks,
};
inline constexpr PieceKind kLastPieceKind = PieceKind::kMarks;

// Kind of a row of kCounts; tag, size and number follow, as in HeapImage.
enum class CountKind : std::uint8_t { kDead, kFree, kFragments };

// kFiber: a continuation, which holds the pointers on a stack outside of the heap. kWeak: an
// ephemeron or a weak array.
enum class ShapeForm : std::uint8_t { kMasked, kListed, kFiber, kWeak, kGuessed };
constexpr bool has_mask(ShapeForm form) {
  return form == ShapeForm::kMasked || form == ShapeForm::kGuessed;
}
// Fields of a kWeak block: the next one in the runtime's list, data, keys.
inline constexpr std::uint64_t kEphemeronData = 1;
inline constexpr std::uint64_t kFirstKey = 2;
// Blocks with more fields list the fields that are pointers.
inline constexpr std::uint64_t kMaskedFields = 32;
// Beyond this number of shapes, small blocks are listed, too: a heap may have any number of shapes.
inline constexpr std::size_t kMaxMaskedShapes = 1u << 16;

inline constexpr std::size_t kPieceHeadBytes = 12;
// A reader refuses larger pieces; a writer writes pieces of a quarter of that size.
inline constexpr std::size_t kMaxPieceBytes = 1u << 20;
inline constexpr std::size_t kPieceBytes = kMaxPieceBytes / 4;
// Longer texts and callstacks are truncated.
inline constexpr std::size_t kMaxTextBytes = 4096;
inline constexpr std::size_t kMaxSiteLocations = 4096;
// Maximum number of distinguished frames of a fiber, and of stored stacks.
inline constexpr std::uint32_t kMaxFiberFrames = 1u << 20;
inline constexpr std::size_t kMaxFiberSites = 1u << 14;
// Up to this number, different sizes that custom blocks hold outside of the heap are stored
// exactly; further ones are rounded up to a power of two.
inline constexpr std::size_t kMaxOutsideSizes = 1u << 14;
// Limits for the contents of one block, and in total.
inline constexpr std::size_t kMaxContentBytes = 1u << 16;
inline constexpr std::uint64_t kMaxTotalContentBytes = std::uint64_t{1} << 30;
// Maximum number of named functions and identifiers.
inline constexpr std::size_t kMaxWordNames = 1u << 18;

// The CRC-32 of a piece's kind, length and payload.
std::uint32_t piece_checksum(std::string_view kind_and_bytes, std::string_view payload);

}  // namespace memprofd
