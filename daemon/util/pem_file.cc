// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/pem_file.h"

#include <cstddef>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace memprofd {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;  // a bundle of all public authorities has 220 KiB

}  // namespace

absl::StatusOr<std::string> read_pem(const std::string& path, const std::string& display_name) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad()) {
    return absl::InvalidArgumentError(
        absl::StrCat(display_name, ": cannot be read; check path and permissions"));
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMaxFileBytes || !absl::StrContains(text, "-----BEGIN ")) {
    return absl::InvalidArgumentError(
        absl::StrCat(display_name, ": is not a PEM file; give one that starts with -----BEGIN"));
  }
  return text;
}

}  // namespace memprofd
