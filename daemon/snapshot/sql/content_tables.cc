// SPDX-License-Identifier: Apache-2.0
// Tables of the contents of strings and float arrays, if a snapshot has them.
#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/sql/cells.h"
#include "daemon/snapshot/sql/heap_tables.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

// A JSON array; numbers that JSON lacks are null.
std::string floats_text(std::string_view bytes) {
  std::string text = "[";
  for (std::size_t at = 0; at + sizeof(double) <= bytes.size(); at += sizeof(double)) {
    double value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    if (at != 0) text += ',';
    text += std::isfinite(value) ? fmt::format("{}", value) : "null";
  }
  return text + "]";
}

}  // namespace

std::string HeapTables::content_text(const BlockContents& of) const {
  const std::string_view bytes = image_.bytes_of(of);
  return image_.shape(of.block).tag == kFloatArrayTag ? floats_text(bytes) : valid_utf8(bytes);
}

void HeapTables::add_contents() {
  tables_.push_back(
      {.name = "contents",
       .columns = "block INTEGER, length INTEGER, kept INTEGER, value TEXT",
       .rows = [this] { return image_.contents.size(); },
       .cell = [this](std::uint64_t row, int column) -> SqlCell {
         const BlockContents& of = image_.contents[row];
         if (column == 0) return number(of.block);
         if (column == 3) return content_text(of);
         return number(column == 1 ? of.length : of.kept);
       },
       .with_key = [this](std::int64_t key) { return rows_of_block(image_.contents, key); }});
  tables_.push_back(
      {.name = "fingerprints",
       .columns = "block INTEGER, fingerprint INTEGER",
       .rows = [this] { return image_.fingerprints.size(); },
       .cell = [this](std::uint64_t row, int column) -> SqlCell {
         const BlockFingerprint& of = image_.fingerprints[row];
         if (column == 0) return number(of.block);
         return static_cast<std::int64_t>(of.value);
       },
       .with_key = [this](std::int64_t key) { return rows_of_block(image_.fingerprints, key); }});
  tables_.push_back(
      {.name = "buffers",
       .columns = "block INTEGER, used INTEGER",
       .rows = [this] { return image_.buffers.size(); },
       .cell = [this](std::uint64_t row, int column) -> SqlCell {
         const BufferUse& of = image_.buffers[row];
         return number(column == 0 ? of.block : of.used);
       },
       .with_key = [this](std::int64_t key) { return rows_of_block(image_.buffers, key); }});
}

}  // namespace memprofd
