// SPDX-License-Identifier: Apache-2.0
// Reads a heap file, which may come from anyone and may be truncated: the image has the contents of
// its complete pieces. Memory and time depend only on the size of the file, whatever it claims.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// Limits of an image. Reading stops about one piece beyond them.
struct ImageLimits {
  std::uint64_t blocks = ~std::uint64_t{0};
  std::uint64_t pointers = ~std::uint64_t{0};
};

// Errors, in one line: kInvalidArgument: not a heap file, or damaged rather than only truncated;
// kResourceExhausted: it exceeds the limits; otherwise as for open_regular_file().
absl::StatusOr<HeapImage> read_heap_image(const std::string& path, const ImageLimits& limits = {});
// Reads tables without blocks: callstacks, names, sizes of dead and free blocks. Pieces with blocks
// and pointers are checked, but not decoded. Errors as above.
absl::StatusOr<HeapImage> read_heap_tables(const std::string& path);
// Reads the information at the beginning only; does not check that the file is complete. Errors as
// above.
absl::StatusOr<ImageInfo> read_heap_info(const std::string& path);

}  // namespace memprofd
