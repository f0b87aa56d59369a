// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_rss.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/render/text.h"
#include "daemon/ctl/render/text_table.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

namespace pb = ::memprof::v1;

struct Row {
  std::string what;
  std::uint64_t resident = 0, size = 0, swapped = 0;

  void add(const pb::RssPart& part) {
    resident += part.resident_bytes();
    size += part.size_bytes();
    swapped += part.swapped_bytes();
  }
};

std::string share_of(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

// One row per class or file. The parts come in the order of classes.
std::vector<Row> rows_of(const pb::GetRssResponse& response, bool by_file) {
  std::vector<Row> rows;
  for (const pb::RssPart& part : response.parts()) {
    if (by_file && part.name().empty()) continue;
    const std::string what = by_file ? part.name()
                             : part.number() == 0
                                 ? part.title()
                                 : absl::StrCat(part.title(), " (", part.number(), ")");
    const auto same = std::ranges::find(rows, what, &Row::what);
    Row& row = same != rows.end() ? *same : rows.emplace_back(Row{.what = what});
    row.add(part);
  }
  std::erase_if(rows, [](const Row& row) { return row.resident == 0 && row.swapped == 0; });
  return rows;
}

std::string table_of(const std::vector<Row>& rows, const std::string& what, std::uint64_t whole,
                     const Style& style) {
  const bool swapped = std::ranges::any_of(rows, [](const Row& row) { return row.swapped != 0; });
  std::vector<Column> columns{
      {"RESIDENT", Align::kRight}, {"SHARE", Align::kRight}, {"OF SIZE", Align::kRight}};
  if (swapped) columns.push_back({"SWAPPED", Align::kRight});
  columns.push_back({what});
  TextTable table(std::move(columns));
  for (const Row& row : rows) {
    std::vector<std::string> cells{bytes_text(row.resident), share_of(row.resident, whole),
                                   bytes_text(row.size)};
    if (swapped) cells.push_back(bytes_text(row.swapped));
    cells.push_back(printable(row.what));
    table.add_row(std::move(cells));
  }
  std::string out;
  for (const std::string& line : table.lines(style.width)) absl::StrAppend(&out, line, "\n");
  return out;
}

std::string head_of(const pb::GetRssResponse& response) {
  const std::string runtime =
      response.ocaml_version().empty() ? "" : absl::StrCat("  OCaml ", response.ocaml_version());
  std::string out = absl::StrCat("pid ", response.pid(), "  ", printable(response.program()),
                                 printable(runtime), "\n");
  absl::StrAppend(&out, "resident ", bytes_text(response.rss_bytes()), ": anonymous ",
                  bytes_text(response.anonymous_bytes()), ", files ",
                  bytes_text(response.file_bytes()), ", shared memory ",
                  bytes_text(response.shared_memory_bytes()), "; swapped out ",
                  bytes_text(response.swapped_bytes()), "; page tables ",
                  bytes_text(response.page_table_bytes()), "\n");
  return out;
}

// Shows the sum of the parts, and its difference to the kernel's count.
std::string sum_of(const pb::GetRssResponse& response) {
  const std::uint64_t counted = response.counted_bytes(), rss = response.rss_bytes();
  std::string out = absl::StrCat("sum of all ", bytes_text(counted));
  if (counted == rss) return absl::StrCat(out, ", equal to the kernel's count\n");
  const std::uint64_t off = std::max(counted, rss) - std::min(counted, rss);
  return absl::StrCat(out, ", ", bytes_text(off), counted > rss ? " more" : " less", " (",
                      share_of(off, rss), ") than the kernel's count: it changed meanwhile\n");
}

std::string more_text(std::size_t left, const char* what) {
  if (left == 0) return "";
  return fmt::format("and {} more {}{} (-n 0 shows all)\n", left, what, left == 1 ? "" : "s");
}

std::string malloc_text(const pb::GetRssResponse& response, std::size_t limit) {
  if (response.arenas().empty()) return "";
  std::string out =
      fmt::format("\nC malloc ({}): {} chunks, {} of them with mappings of their own; {} threads\n",
                  response.allocator(), response.malloc_chunks(), response.malloc_mapped_chunks(),
                  response.threads());
  TextTable table({{"ARENA"},
                   {"TAKEN", Align::kRight},
                   {"IN USE", Align::kRight},
                   {"FREE", Align::kRight},
                   {"CACHED", Align::kRight},
                   {"NOT WALKED", Align::kRight}});
  std::vector<pb::RssArena> arenas(response.arenas().begin(), response.arenas().end());
  std::ranges::stable_sort(arenas, std::ranges::greater{}, &pb::RssArena::system_bytes);
  const std::size_t all = arenas.size();
  if (limit != 0) arenas.resize(std::min(limit, all));
  for (const pb::RssArena& arena : arenas) {
    table.add_row({arena.main() ? "main" : "other", bytes_text(arena.system_bytes()),
                   bytes_text(arena.used_bytes()), bytes_text(arena.free_bytes()),
                   bytes_text(arena.cached_bytes()), bytes_text(arena.unwalked_bytes())});
  }
  for (const std::string& line : table.lines()) absl::StrAppend(&out, line, "\n");
  return out + more_text(all - arenas.size(), "arena");
}

std::string owners_text(const pb::GetRssResponse& response, std::size_t limit) {
  if (!response.has_no_owner()) return "";
  std::string out = "\nNative memory by the custom blocks that hold it:\n";
  TextTable table({{"BYTES", Align::kRight},
                   {"RESIDENT", Align::kRight},
                   {"CHUNKS", Align::kRight},
                   {"BLOCKS", Align::kRight},
                   {"IDENTIFIER"}});
  const auto all = static_cast<std::size_t>(response.owners_size());
  const std::size_t shown = limit == 0 ? all : std::min(limit, all);
  const auto add = [&](const pb::RssOwner& owner, const std::string& blocks, std::string name) {
    table.add_row({bytes_text(owner.bytes()), bytes_text(owner.resident_bytes()),
                   absl::StrCat(owner.chunks()), blocks, std::move(name)});
  };
  for (std::size_t i = 0; i < shown; ++i) {
    const pb::RssOwner& owner = response.owners(static_cast<int>(i));
    add(owner, absl::StrCat(owner.blocks()),
        owner.identifier().empty() ? "(no name)" : printable(owner.identifier()));
  }
  add(response.no_owner(), "-", "(held by no custom block)");
  for (const std::string& line : table.lines()) absl::StrAppend(&out, line, "\n");
  return out + more_text(all - shown, "identifier");
}

std::string advice_text(const pb::GetRssResponse& response) {
  std::string out;
  if (!response.advice().empty()) out = "\nWhat would give memory back:\n";
  for (const pb::RssAdvice& advice : response.advice()) {
    absl::StrAppend(&out, "  up to ", bytes_text(advice.bytes()), ": ", printable(advice.action()),
                    " (", printable(advice.reason()), ")\n");
  }
  for (const std::string& hint : response.hints()) {
    absl::StrAppend(&out, "\nnote: ", printable(hint), "\n");
  }
  for (const std::string& note : response.notes()) {
    absl::StrAppend(&out, "\nunknown: ", printable(note), "\n");
  }
  return out;
}

}  // namespace

std::string rss_text(const pb::GetRssResponse& response, std::size_t limit, const Style& style) {
  const std::uint64_t whole = response.counted_bytes();
  std::string out =
      absl::StrCat(head_of(response), "\n",
                   table_of(rows_of(response, false), "WHAT", whole, style), sum_of(response));
  std::vector<Row> files = rows_of(response, true);
  std::ranges::stable_sort(files, std::ranges::greater{}, &Row::resident);
  const std::size_t shown = limit == 0 ? files.size() : std::min(limit, files.size());
  const std::size_t left = files.size() - shown;
  files.resize(shown);
  if (!files.empty()) absl::StrAppend(&out, "\n", table_of(files, "FILE", whole, style));
  return absl::StrCat(out, more_text(left, "file"), malloc_text(response, limit),
                      owners_text(response, limit), advice_text(response));
}

}  // namespace memprofd::ctl
