// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/heap_file_format.h"

#include <zlib.h>

namespace memprofd {

std::uint32_t piece_checksum(std::string_view kind_and_bytes, std::string_view payload) {
  const auto add = [](uLong sum, std::string_view bytes) {
    return ::crc32(sum, reinterpret_cast<const Bytef*>(bytes.data()),
                   static_cast<uInt>(bytes.size()));
  };
  return static_cast<std::uint32_t>(add(add(0, kind_and_bytes), payload));
}

}  // namespace memprofd
