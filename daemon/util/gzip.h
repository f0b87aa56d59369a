// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace memprofd {

// Compresses data into a gzip stream; empty if zlib fails (out of memory).
std::string gzip_compress(std::string_view data);

}  // namespace memprofd
