// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace memprofd {

// A gzip stream of data; empty when zlib fails (out of memory).
std::string gzip_compress(std::string_view data);

}  // namespace memprofd
