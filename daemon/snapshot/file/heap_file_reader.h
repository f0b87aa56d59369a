// SPDX-License-Identifier: Apache-2.0
// Reads a heap file, which may be anybody's, or was cut off when something died: the image has what
// its whole pieces tell. Memory and time grow with the file alone, whatever it claims.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// What an image may have at most. It is read no further than about a piece beyond.
struct ImageLimits {
  std::uint64_t blocks = ~std::uint64_t{0};
  std::uint64_t pointers = ~std::uint64_t{0};
};

// In one line: kInvalidArgument, it is no heap file, or damaged in what it says, not only cut off;
// kResourceExhausted: it has more than the limits allow; else as of open_regular_file().
absl::StatusOr<HeapImage> read_heap_image(const std::string& path, const ImageLimits& limits = {});
// What is said of no block: callstacks, names, sizes of dead and free ones. Of blocks there are
// none, nor what leads to them: their pieces are checked, and not decoded. Errors as above.
absl::StatusOr<HeapImage> read_heap_tables(const std::string& path);
// What is said of it at its beginning, of which no more is read; whether it is complete is not
// looked at. Errors as above.
absl::StatusOr<ImageInfo> read_heap_info(const std::string& path);

}  // namespace memprofd
