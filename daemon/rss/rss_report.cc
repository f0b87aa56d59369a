// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/rss_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/discover/agent_finder.h"
#include "daemon/discover/process_owner.h"
#include "daemon/discover/target_memory.h"
#include "daemon/rss/custom_owners.h"
#include "daemon/rss/mapping_classes.h"
#include "daemon/rss/page_count.h"
#include "daemon/rss/page_map.h"
#include "daemon/rss/part_finder.h"
#include "daemon/rss/resident_reader.h"
#include "daemon/rss/rss_advice.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Maximum time for all reading of the program's memory: lists outside malloc's chunks may have no
// end.
constexpr std::chrono::seconds kReadTime{10};

class Accounting {
 public:
  Accounting(const RequestedProcess& process, RssOptions options, const std::stop_token& stop)
      : process_(process), options_(options), stop_(stop) {
    report_.pid = process.pid;
  }

  absl::StatusOr<RssReport> run() {
    RETURN_IF_ERROR(open());
    const ClassifiedMappings mappings = classify_mappings(maps_, report_.program, names_);
    find_runtime();
    parts_.emplace(*reader_, *pages_, runtime_ ? &*runtime_ : nullptr,
                   options_.owners ? kMaxOwnedChunks : 0, stop_);
    parts_->find(mappings);
    add_malloc(mappings);
    add_ocaml();
    if (options_.owners) find_owners();
    RETURN_IF_ERROR(reader_->broken());
    RETURN_IF_ERROR(count());
    report_.heap_known = parts_->ocaml() != nullptr && parts_->uses_known();
    if (report_.heap_known) count_.split_ocaml_heap(parts_->ocaml()->counts());
    count_.make_parts(names_, [this](RssClass kind) { return parts_->number_of(kind); });
    report_.mappings = maps_.size();
    report_.max_mappings = ProcFs().max_mappings();
    report_.owners = owners_.largest();
    report_.no_owner = owners_.no_owner();
    advise(report_);
    return std::move(report_);
  }

 private:
  absl::Status open() {
    const ProcFs proc;
    ASSIGN_OR_RETURN(memory_, TargetMemory::open(report_.pid));
    // A check at the end shows that it still belongs to this program.
    RETURN_IF_ERROR(check_is_meant_now(proc, process_));
    ASSIGN_OR_RETURN(PageMap pages, PageMap::open(report_.pid));
    pages_ = std::make_unique<PageMap>(std::move(pages));
    ASSIGN_OR_RETURN(report_.program, proc.exe(report_.pid));
    reader_ = std::make_unique<ResidentReader>(
        *memory_, *pages_, ResidentReader::Clock::now() + kReadTime, stop_, options_.max_pieces);
    return read_maps();
  }

  absl::Status read_maps() {
    ASSIGN_OR_RETURN(maps_, memory_->maps());
    return check_number(maps_, report_.pid);
  }

  // If there is no runtime, the rest of the program's memory is still classified.
  void find_runtime() {
    auto file = ElfFile::open(ProcFs().path(report_.pid, "exe"), report_.program);
    if (!file.ok()) return note("no OCaml runtime: {}", file.status());
    const auto bias = find_load_bias(maps_, report_.program, **file);
    if (!bias)
      return note("no OCaml runtime: {}", absl::NotFoundError("the program's file has changed"));
    auto runtime = find_ocaml_runtime(**file, *bias);
    if (!runtime.ok()) {
      return note("no known OCaml runtime: the program {}", runtime.status());
    }
    runtime_ = *std::move(runtime);
    report_.ocaml_version = runtime_->abi.version;
  }

  void add_malloc(const ClassifiedMappings& mappings) {
    const std::vector<Arena>& arenas = parts_->arenas();
    for (const Arena& arena : arenas) {
      report_.arenas.push_back({.is_main = arena.is_main, .system = arena.system_bytes});
    }
    report_.walked_chunks = parts_->walk().walked();
    report_.mapped_chunks = parts_->walk().mapped();
    report_.allocator = mappings.other_allocator;
    if (report_.allocator.empty() && !arenas.empty()) report_.allocator = "glibc";
    if (!mappings.other_allocator.empty()) {
      report_.notes.push_back(
          fmt::format("the C allocator is {}: its memory is not split and counts as unknown",
                      mappings.other_allocator));
    } else if (arenas.empty()) {
      report_.notes.push_back(
          "the C allocator is not glibc's, or was never used: its memory counts as unknown");
    }
    if (!parts_->walk().complete()) {
      report_.notes.push_back(
          "malloc has more chunks than were walked in time: the rest counts as not read");
    }
  }

  void add_ocaml() {
    if (reader_->late()) {
      report_.notes.push_back(
          "not all of the memory could be read in time: the rest counts as not read");
    }
    const OcamlParts* ocaml = parts_->ocaml();
    if (ocaml == nullptr) return;
    report_.ocaml_domains = ocaml->counts().domains;
    report_.space_overhead = ocaml->counts().percent_free;
    report_.ocaml_free_kept = ocaml->counts().free_kept;
    report_.ocaml_chunks = ocaml->chunks();
    report_.ocaml_chunks_used = ocaml->counts().heap - ocaml->counts().free;
    if (!ocaml->why_no_heap().empty()) {
      report_.notes.push_back(fmt::format(
          "the OCaml heap cannot be split and counts as not read: {}", ocaml->why_no_heap()));
    }
  }

  // Reads the mappings again, so that new ones count too.
  absl::Status count() {
    RETURN_IF_ERROR(read_maps());
    const ClassifiedMappings mappings = classify_mappings(maps_, report_.program, names_);
    MallocWalk& walk = parts_->walk();
    const ExtentLayer* const layers[] = {&mappings.layer, &parts_->stacks(), &walk.chunks(),
                                         &walk.cached(),  &parts_->tables(), &parts_->channels(),
                                         &parts_->heaps()};
    for (const Extent& mapping : mappings.layer.extents()) {
      cut_by_layers(layers, mapping.begin, mapping.end,
                    [this](const Extent& piece) { count_.add_size(certain(piece)); });
    }
    for (const Extent& mapping : mappings.layer.extents()) {
      RETURN_IF_ERROR(pages_->scan(mapping.begin, mapping.end, [&](const PageRun& run) {
        cut_by_layers(layers, run.begin, run.end,
                      [&](const Extent& piece) { count_.add(certain(piece), run.swapped); });
        if (options_.owners && !run.swapped) count_owned(run);
      }));
    }
    ASSIGN_OR_RETURN(report_.status, read_memory_status(report_.pid));
    return memory_->check();
  }

  Extent certain(Extent piece) const {
    piece.kind = parts_->certain(piece.kind);
    return piece;
  }

  void count_owned(const PageRun& run) {
    const ExtentLayer* const layers[] = {&owned_};
    cut_by_layers(layers, run.begin, run.end, [this](const Extent& piece) {
      if (piece.name != 0) owners_.add_resident(piece.name - 1, piece.end - piece.begin);
    });
  }

  // The identifiers of custom blocks may be in pages that were not used for a long time; one page
  // is read for each nevertheless.
  std::string identifier(std::uint64_t operations) const {
    std::string name = custom_identifier(*reader_, operations);
    return name.empty() ? custom_identifier(*memory_, operations) : name;
  }

  void find_owners() {
    const OcamlParts* ocaml = parts_->ocaml();
    if (ocaml == nullptr || !parts_->uses_known()) {
      report_.notes.push_back("memory held by custom blocks is unknown without the OCaml heap");
      return;
    }
    MallocWalk& walk = parts_->walk();
    ChunkOwners chunks(*reader_, std::move(walk.kept()));
    chunks.exclude(parts_->heaps());
    chunks.exclude(walk.cached());
    const SparseMemory heap(*memory_, *pages_, SparseMemory::Clock::now() + kChunkWalkTime, stop_);
    owners_.find(heap, ocaml->heap_map(), chunks);
    chunks.exclude(parts_->tables());
    chunks.follow();
    chunks.exclude(parts_->channels());  // channels that no block refers to any more
    if (reader_->late()) {
      report_.notes.push_back("memory held by custom blocks could not be read in time");
      return;
    }
    owners_.sum_up(chunks, owned_);
    report_.has_owners = true;
    if (!walk.kept_all()) {
      report_.notes.push_back(fmt::format(
          "owners were searched for {} chunks of malloc only; there are more", kMaxOwnedChunks));
    }
    const std::uint64_t lost = owners_.lost_bytes() + heap.swapped_bytes();
    if (lost == 0) return;
    report_.notes.push_back(fmt::format(
        "memory held by custom blocks in {} bytes of the OCaml heap, which could not be walked",
        lost));
  }

  void note(fmt::format_string<std::string> text, const absl::Status& status) {
    report_.notes.push_back(fmt::format(text, std::string(status.message())));
  }

  const RequestedProcess process_;
  const RssOptions options_;
  std::stop_token stop_;
  RssReport report_;
  std::unique_ptr<TargetMemory> memory_;
  std::unique_ptr<PageMap> pages_;
  std::unique_ptr<ResidentReader> reader_;
  std::vector<Mapping> maps_;
  PartNames names_;
  std::optional<OcamlRuntime> runtime_;
  std::optional<PartFinder> parts_;
  ExtentLayer owned_;
  CustomOwners owners_{[this](std::uint64_t operations) { return identifier(operations); }};
  PageCount count_{report_};
};

}  // namespace

std::uint64_t RssReport::resident(RssClass kind) const {
  std::uint64_t bytes = 0;
  for (const RssPart& part : parts) bytes += part.kind == kind ? part.resident : 0;
  return bytes;
}

std::uint64_t RssReport::number_of(RssClass kind) const {
  std::uint64_t number = 0;
  for (const RssPart& part : parts) {
    if (part.kind == kind) number = std::max(number, part.number);
  }
  return number;
}

absl::StatusOr<RssReport> account_rss(const RequestedProcess& process, RssOptions options,
                                      const std::stop_token& stop) {
  return Accounting(process, options, stop).run();
}

}  // namespace memprofd
