// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/sql/heap_tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/snapshot/answers/garbage.h"
#include "daemon/snapshot/answers/path_tree.h"
#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/snapshot/answers/sampled_sites.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/dominators.h"
#include "daemon/snapshot/sql/cells.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

template <typename Row>
std::vector<Row> by_block(std::vector<Row> rows) {
  std::ranges::stable_sort(rows, {}, &Row::block);
  return rows;
}

const char* what_text(RetainedRow::What what) {
  switch (what) {
    case RetainedRow::What::kRoots:
      return "roots";
    case RetainedRow::What::kShared:
      return "several";
    case RetainedRow::What::kBlocks:
      break;
  }
  return "blocks";
}

const char* state_text(SampledState state) {
  switch (state) {
    case SampledState::kReachable:
      return "reachable";
    case SampledState::kGarbage:
      return "garbage";
    case SampledState::kDead:
      break;
  }
  return "dead";
}

SqlCell seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

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

HeapTables::HeapTables(HeapImage image)
    : image_(std::move(image)),
      reach_sets_(image_),
      classes_(image_),
      roots_(by_block(image_.roots)),
      weak_(by_block(image_.weak)),
      sampled_(by_block(image_.sampled)) {
  for (const RootName& name : image_.root_names) root_texts_.push_back(root_text(name));
  add_blocks();
  add_edges();
  add_roots();
  add_weak();
  add_samples();
  add_sites();
  add_contents();
  add_retained();
  add_sizes();
  add_snapshot();
}

const ShortestPaths& HeapTables::paths() {
  if (!paths_) paths_.emplace(image_);
  return *paths_;
}
const std::vector<std::uint32_t>& HeapTables::nearest() {
  if (!nearest_) nearest_ = paths().nearest_roots();
  return *nearest_;
}
const RetainedTable& HeapTables::retained() {
  if (!retained_) retained_ = find_retained(image_, {});
  return *retained_;
}
const HeapTables::Dominated& HeapTables::dominated() {
  if (dominated_) return *dominated_;
  std::vector<std::uint32_t> entries;
  for (const ImageRoot& root : roots_) entries.push_back(root.block);
  const DominatorTree tree(image_.edges, entries);
  std::vector<std::uint64_t> words(image_.blocks());
  for (std::uint32_t block = 0; block < image_.blocks(); ++block) {
    words[block] = image_.shape(block).words;
  }
  dominated_.emplace();
  dominated_->words = tree.retained(words);
  dominated_->by.resize(image_.blocks(), HeapImage::kNoBlock);
  for (const std::uint32_t block : tree.order()) {
    const std::uint32_t by = tree.dominator_of(block);
    if (by < image_.blocks()) dominated_->by[block] = by;
  }
  return *dominated_;
}

std::string HeapTables::root_path(std::int64_t block) {
  if (block < 0 || block >= image_.blocks()) return "";
  const auto to = static_cast<std::uint32_t>(block);
  if (!paths().is_reachable(to)) return "";
  PathTree tree(image_, classes_, paths());
  tree.add(to, {});
  std::string path;
  // A tree with a single path: each step is below the previous one.
  for (std::uint32_t step = 1; step < tree.steps().size(); ++step) path += tree.text(step);
  return path;
}

void HeapTables::add_blocks() {
  tables_.push_back(
      {.name = "blocks",
       .columns = "block INTEGER, tag INTEGER, fields INTEGER, bytes INTEGER, class TEXT, "
                  "name TEXT, reachable INTEGER, young INTEGER, root TEXT, "
                  "retained_bytes INTEGER, dominator INTEGER, type TEXT, "
                  "outside_bytes INTEGER, outside_resident_bytes INTEGER",
       .rows = [this] { return image_.blocks(); },
       .cell = [this](std::uint64_t row,
                      int column) { return block_cell(static_cast<std::uint32_t>(row), column); },
       .with_key = [this](std::int64_t key) -> SqlRows {
         if (key < 0 || key >= image_.blocks()) return {};
         return {static_cast<std::uint64_t>(key), static_cast<std::uint64_t>(key) + 1};
       }});
}

SqlCell HeapTables::block_cell(std::uint32_t block, int column) {
  const BlockShape& shape = image_.shape(block);
  switch (column) {
    case 0:
      return number(block);
    case 1:
      return number(shape.tag);
    case 2:
      return number(shape.words - 1);
    case 3:
      return number(shape.words * kWordBytes);
    case 4:
      return std::string_view(classes_.text(classes_.of(block)));
    case 5:
      return text_or_null(image_.texts[shape.name]);
    case 6:
      return number(paths().is_reachable(block) ? 1 : 0);
    case 7:
      return number(image_.is_young(block) ? 1 : 0);
    case 8:
      if (!paths().is_reachable(block)) return {};
      return std::string_view(root_texts_[nearest()[block]]);
    case 9:
      if (!paths().is_reachable(block)) return {};
      return number(dominated().words[block] * kWordBytes);
    case 10: {
      const std::uint32_t by = dominated().by[block];
      return by == HeapImage::kNoBlock ? SqlCell{} : number(by);
    }
    case 11:
      return text_or_null(image_.types[image_.type(block)].name);
    case 12:
      return number(image_.outside_bytes(block));
    default:
      return number(image_.chunks_of(block).resident);
  }
}

void HeapTables::add_edges() {
  // Fields that are not distinguished are NULL.
  const auto cell = [this](std::uint64_t row, int column) -> SqlCell {
    if (column == 2) return number(image_.edges.to[row]);
    if (column == 1) {
      return image_.fields[row] == HeapImage::kFarField ? SqlCell{} : number(image_.fields[row]);
    }
    return number(image_.edges.first.up_to(static_cast<std::uint32_t>(row)) - 1);
  };
  tables_.push_back({.name = "edges",
                     .columns = "source INTEGER, field INTEGER, target INTEGER",
                     .rows = [this] { return image_.fields.size(); },
                     .cell = cell,
                     .with_key = [this](std::int64_t key) -> SqlRows {
                       if (key < 0 || key >= image_.blocks()) return {};
                       const auto block = static_cast<std::uint32_t>(key);
                       return {image_.edges.first[block], image_.edges.first[block + 1]};
                     }});
}

void HeapTables::add_roots() {
  tables_.push_back(
      {.name = "roots",
       .columns = "block INTEGER, kind TEXT, owner TEXT, field INTEGER, function TEXT, file TEXT, "
                  "line INTEGER, root TEXT",
       .rows = [this] { return roots_.size(); },
       .cell = [this](std::uint64_t row, int column) { return root_cell(roots_[row], column); },
       .with_key = [this](std::int64_t key) { return rows_of_block(roots_, key); }});
}

SqlCell HeapTables::root_cell(const ImageRoot& root, int column) const {
  const RootName& name = image_.root_names[root.name];
  switch (column) {
    case 0:
      return number(root.block);
    case 1:
      return std::string_view(root_kind_text(name.kind));
    case 2:
      return text_or_null(name.owner);
    case 3:
      return name.field == RootName::kNoField ? SqlCell{} : number(name.field);
    case 4:
      return text_or_null(name.place.function);
    case 5:
      return text_or_null(name.place.file);
    case 6:
      return line_or_null(name.place.line);
    default:
      return std::string_view(root_texts_[root.name]);
  }
}

void HeapTables::add_weak() {
  tables_.push_back({.name = "weak",
                     .columns = "block INTEGER, target INTEGER",
                     .rows = [this] { return weak_.size(); },
                     .cell =
                         [this](std::uint64_t row, int column) {
                           return number(column == 0 ? weak_[row].block : weak_[row].target);
                         },
                     .with_key = [this](std::int64_t key) { return rows_of_block(weak_, key); }});
}

void HeapTables::add_retained() {
  tables_.push_back(
      {.name = "retained",
       .columns = "row INTEGER, parent INTEGER, kind TEXT, name TEXT, path TEXT, blocks INTEGER, "
                  "bytes INTEGER, own_blocks INTEGER, own_bytes INTEGER, outside_bytes INTEGER",
       .rows = [this] { return retained().rows.size(); },
       .cell = [this](
                   std::uint64_t row,
                   int column) { return retained_cell(static_cast<std::uint32_t>(row), column); }});
}

SqlCell HeapTables::retained_cell(std::uint32_t number_of_row, int column) {
  const RetainedRow& row = retained().rows[number_of_row];
  switch (column) {
    case 0:
      return number(number_of_row);
    case 1:
      return number_of_row == 0 ? SqlCell{} : number(row.parent);
    case 2:
      return std::string_view(what_text(row.what));
    case 3:
      return std::string_view(row.name);
    case 4:
      return retained().full_name(number_of_row);
    case 5:
      return number(row.blocks);
    case 6:
      return number(row.words * kWordBytes);
    case 7:
      return number(row.own_blocks);
    case 8:
      return number(row.own_words * kWordBytes);
    default:
      return number(row.outside_bytes);
  }
}

void HeapTables::add_sizes() {
  const auto add = [this](const char* name, const char* columns, const SizeTable& table,
                          std::uint64_t header_words) {
    const auto cell = [rows = table.rows(), header_words](std::uint64_t row, int column) {
      if (column == 0) return number((rows[row].fields + header_words) * kWordBytes);
      return number(column == 1 ? rows[row].blocks : rows[row].tag);
    };
    tables_.push_back({.name = name,
                       .columns = columns,
                       .rows = [rows = table.rows().size()] { return rows; },
                       .cell = cell});
  };
  add("dead_sizes", "bytes INTEGER, blocks INTEGER, tag INTEGER", image_.dead, 1);
  add("free_sizes", "bytes INTEGER, blocks INTEGER", image_.free, 0);
}

void HeapTables::add_snapshot() {
  const auto cell = [this](std::uint64_t, int column) -> SqlCell {
    const ImageInfo& info = image_.info;
    switch (column) {
      case 0:
        return std::string_view(info.program);
      case 1:
        return number(info.pid);
      case 2:
        return std::string_view(info.ocaml_version);
      case 3:
        return static_cast<double>(info.unix_ns) / 1e9;
      case 4:
        return static_cast<double>(info.pause_ns) / 1e9;
      case 5:
        return info.sampling_rate;
      default:
        return number(info.heap_words * kWordBytes);
    }
  };
  tables_.push_back({.name = "snapshot",
                     .columns = "program TEXT, pid INTEGER, ocaml_version TEXT, unix_seconds REAL, "
                                "pause_seconds REAL, sampling_rate REAL, heap_bytes INTEGER",
                     .rows = [] { return 1; },
                     .cell = cell});
}

// ------------------------------------------------------ samples and callstacks

void HeapTables::add_samples() {
  tables_.push_back(
      {.name = "samples",
       .columns = "block INTEGER, site INTEGER, samples INTEGER, state TEXT, bytes REAL, "
                  "bytes_stderr REAL, sample_id INTEGER, age_seconds REAL, "
                  "longest_wait_seconds REAL",
       .rows = [this] { return sampled_.size(); },
       .cell = [this](std::uint64_t row, int column) { return sample_cell(sampled_[row], column); },
       .with_key = [this](std::int64_t key) { return rows_of_block(sampled_, key); }});
}

SqlCell HeapTables::sample_cell(const SampledBlock& sampled, int column) {
  switch (column) {
    case 0:
      return sampled.block == HeapImage::kNoBlock ? SqlCell{} : number(sampled.block);
    case 1:
      return number(sampled.site);
    case 2:
      return number(sampled.samples);
    case 3:
      return std::string_view(state_text(state_of(paths(), sampled)));
    case 4:
      return sum_of(image_, sampled).estimate.bytes();
    case 5:
      return sum_of(image_, sampled).estimate.stderr_bytes();
    case 6:
      return number(sampled.sample_id);
    case 7:
      return sampled.age_ns == SampledBlock::kNoAge ? SqlCell{} : seconds(sampled.age_ns);
    default: {
      if (state_of(paths(), sampled) != SampledState::kGarbage) return {};
      const auto wait = longest_wait_ns(image_, sampled);
      return wait ? seconds(*wait) : SqlCell{};
    }
  }
}

std::string HeapTables::callstack_text(std::uint32_t site) const {
  std::string text;
  for (const std::uint32_t frame : image_.sites[site]) {
    absl::StrAppend(&text, text.empty() ? "" : " < ", place_text(image_.locations[frame]));
  }
  return text;
}

void HeapTables::add_sites() {
  const auto cell = [this](std::uint64_t row, int column) -> SqlCell {
    const auto site = static_cast<std::uint32_t>(row);
    if (column == 0) return number(site);
    if (column == 4) return callstack_text(site);
    if (image_.sites[site].empty()) return {};
    const Location& place = image_.locations[image_.sites[site][0]];
    if (column == 1) return text_or_null(place.function);
    return column == 2 ? text_or_null(place.file) : line_or_null(place.line);
  };
  tables_.push_back(
      {.name = "sites",
       .columns = "site INTEGER, function TEXT, file TEXT, line INTEGER, callstack TEXT",
       .rows = [this] { return image_.sites.size(); },
       .cell = cell,
       .with_key = [this](std::int64_t key) -> SqlRows {
         if (key < 0 || static_cast<std::uint64_t>(key) >= image_.sites.size()) return {};
         return {static_cast<std::uint64_t>(key), static_cast<std::uint64_t>(key) + 1};
       }});
}

// -------------------------------------------------------------------- contents

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
