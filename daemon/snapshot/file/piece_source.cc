// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/piece_source.h"

#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/util/read_at.h"
#include "daemon/util/regular_file.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

std::uint32_t u32_at(std::string_view bytes, std::size_t offset) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

absl::StatusOr<PieceSource> PieceSource::open(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd file, open_regular_file(path, path));
  std::array<char, kHeapFileStartBytes> start{};
  const absl::Status read = read_at(file.get(), 0, std::as_writable_bytes(std::span(start)));
  const std::string_view text(start.data(), start.size());
  if (absl::IsOutOfRange(read) || (read.ok() && !text.starts_with(kHeapFileMagic))) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a heap snapshot"));
  }
  RETURN_IF_ERROR(read);
  const std::uint32_t version = u32_at(text, kHeapFileMagic.size());
  if (version < kOldestHeapFileVersion || version > kHeapFileVersion) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has version ", version,
                                                   " of the format, and this program reads ",
                                                   kOldestHeapFileVersion, " to ", kHeapFileVersion,
                                                   "; use the memprofctl that goes with it"));
  }
  return PieceSource(std::move(file));
}

std::optional<PieceSource::Piece> PieceSource::next() {
  std::array<char, kPieceHeadBytes> raw{};
  if (!read_at(file_.get(), at_, std::as_writable_bytes(std::span(raw))).ok()) return std::nullopt;
  const std::string_view head(raw.data(), raw.size());
  const std::uint32_t kind = u32_at(head, 0);
  const std::uint32_t bytes = u32_at(head, 4);
  if (bytes > kMaxPieceBytes || kind < static_cast<std::uint32_t>(PieceKind::kHead) ||
      kind > static_cast<std::uint32_t>(kLastPieceKind)) {
    return std::nullopt;
  }
  bytes_.resize(bytes);
  const auto payload = std::as_writable_bytes(std::span(bytes_));
  if (!read_at(file_.get(), at_ + kPieceHeadBytes, payload).ok()) return std::nullopt;
  if (piece_checksum(head.substr(0, 8), bytes_) != u32_at(head, 8)) return std::nullopt;
  at_ += kPieceHeadBytes + bytes;
  return Piece{static_cast<PieceKind>(kind), bytes_};
}

}  // namespace memprofd
