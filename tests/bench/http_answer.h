// SPDX-License-Identifier: Apache-2.0
// Finds the end of an HTTP/1.1 answer that may be incomplete.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/util/units.h"

namespace memprofd {

inline constexpr std::size_t kLargestAnswer = std::size_t{1} << 20;

// Value of a field in a lower-case head, without surrounding spaces.
inline std::optional<std::string_view> field_of(std::string_view head, std::string_view name) {
  const std::string line = absl::StrCat("\r\n", std::string(name), ":");
  const std::size_t at = head.find(line);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view value = head.substr(at + line.size());
  value = value.substr(0, value.find("\r\n"));
  const std::size_t begin = std::min(value.find_first_not_of(" \t"), value.size());
  return value.substr(begin, value.find_last_not_of(" \t") + 1 - begin);
}

// Length of a whole chunked body; 0 if it is incomplete.
inline absl::StatusOr<std::size_t> length_of_chunks(std::string_view text) {
  for (std::size_t at = 0;;) {
    const std::size_t line = text.find("\r\n", at);
    if (line == std::string_view::npos) return 0;
    const std::string_view number = text.substr(at, line - at);
    const auto size = parse_number<std::uint32_t>(number.substr(0, number.find(';')), 16);
    if (!size) return absl::InvalidArgumentError("a chunk without its length");
    const std::size_t end = line + 2 + *size;
    if (end + 2 > text.size()) return 0;
    if (text.substr(end, 2) != "\r\n") return absl::InvalidArgumentError("a chunk does not end");
    at = end + 2;
    if (*size == 0) return at;
  }
}

// Length of the answer at the start of the text; 0 if it is incomplete. Returns an error if its
// status is not success, or if its end cannot be determined.
inline absl::StatusOr<std::size_t> length_of_answer(std::string_view text) {
  const std::size_t end = text.find("\r\n\r\n");
  if (text.size() > kLargestAnswer) return absl::OutOfRangeError("an answer of more than 1 MiB");
  if (end == std::string_view::npos) return 0;
  const std::string head = absl::AsciiStrToLower(std::string(text.substr(0, end)));
  if (!head.starts_with("http/1.1 2")) {
    return absl::InvalidArgumentError(head.substr(0, head.find("\r\n")));
  }
  const std::string_view body = text.substr(end + 4);
  std::size_t length = 0;
  if (const auto value = field_of(head, "content-length")) {
    const auto number = parse_number<std::uint32_t>(*value);
    if (!number) return absl::InvalidArgumentError("a length that is no number");
    if (*number > body.size()) return 0;
    length = *number;
  } else if (field_of(head, "transfer-encoding") == "chunked") {
    const absl::StatusOr<std::size_t> chunks = length_of_chunks(body);
    if (!chunks.ok() || *chunks == 0) return chunks;
    length = *chunks;
  } else {
    return absl::InvalidArgumentError("an answer without its length");
  }
  return end + 4 + length;
}

}  // namespace memprofd
