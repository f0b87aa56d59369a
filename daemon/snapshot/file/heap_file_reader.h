// SPDX-License-Identifier: Apache-2.0
// Reads a heap file, which may be anybody's, or was cut off when something died: the image has what
// its whole pieces tell. Memory and time grow with the file alone, whatever it claims.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// Limits of an image. Reading stops about a piece beyond them.
struct ImageLimits {
  std::uint64_t blocks = ~std::uint64_t{0};
  std::uint64_t pointers = ~std::uint64_t{0};
};

// In one line: kInvalidArgument, it is no heap file, or damaged in what it says, not only cut off;
// kResourceExhausted: it has more than the limits allow; else as of open_regular_file().
absl::StatusOr<HeapImage> read_heap_image(const std::string& path, const ImageLimits& limits = {});
// Reads tables without blocks: callstacks, names, sizes of dead and free blocks. Pieces with blocks
// and pointers are checked, but not decoded. Errors as above.
absl::StatusOr<HeapImage> read_heap_tables(const std::string& path);
// Reads the information at the beginning only; does not check that the file is complete. Errors as
// above.
absl::StatusOr<ImageInfo> read_heap_info(const std::string& path);

}  // namespace memprofd
