// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/rss_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/discover/agent_finder.h"
#include "daemon/discover/target_memory.h"
#include "daemon/rss/custom_owners.h"
#include "daemon/rss/mapping_classes.h"
#include "daemon/rss/ocaml_parts.h"
#include "daemon/rss/page_map.h"
#include "daemon/rss/resident_reader.h"
#include "daemon/rss/rss_advice.h"
#include "daemon/rss/thread_stacks.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::size_t kMaxMappings = 1u << 18;
constexpr std::size_t kMaxRuns = 1u << 20;  // resident stretches of one mapping that are looked at
constexpr std::chrono::seconds kWalkTime{5};
constexpr std::size_t kMaxOwned = 1u << 22;  // chunks of which is looked for who holds them
// For all that is read of the program's memory: lists behind malloc's chunks have no end of their
// own.
constexpr std::chrono::seconds kReadTime{10};

struct Amounts {
  std::uint64_t resident = 0, size = 0, swapped = 0;
};

class Accounting {
 public:
  Accounting(int pid, RssOptions options, const std::stop_token& stop)
      : options_(options), stop_(stop) {
    report_.pid = pid;
  }

  absl::StatusOr<RssReport> run() {
    RETURN_IF_ERROR(open());
    const ClassifiedMappings mappings = classify_mappings(maps_, report_.program, names_);
    find_runtime();
    find_parts(mappings);
    if (options_.owners) find_owners();
    RETURN_IF_ERROR(reader_->broken());
    RETURN_IF_ERROR(count());
    split_ocaml_heap();
    make_parts();
    report_.owners = owners_.largest();
    report_.no_owner = owners_.no_owner();
    advise(report_);
    return std::move(report_);
  }

 private:
  absl::Status open() {
    const ProcFs proc;
    ASSIGN_OR_RETURN(memory_, TargetMemory::open(report_.pid));
    ASSIGN_OR_RETURN(PageMap pages, PageMap::open(report_.pid));
    pages_ = std::make_unique<PageMap>(std::move(pages));
    ASSIGN_OR_RETURN(report_.program, proc.exe(report_.pid));
    reader_ = std::make_unique<ResidentReader>(*memory_, *pages_,
                                               ResidentReader::Clock::now() + kReadTime, stop_);
    return read_maps();
  }

  absl::Status read_maps() {
    ASSIGN_OR_RETURN(maps_, memory_->maps());
    if (maps_.size() <= kMaxMappings) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        fmt::format("pid {} has {} mappings: more than {} are not looked at", report_.pid,
                    maps_.size(), kMaxMappings));
  }

  // Without one the program's memory is told apart all the same.
  void find_runtime() {
    auto file = ElfFile::open(ProcFs().path(report_.pid, "exe"), report_.program);
    if (!file.ok()) return note("no OCaml runtime: {}", file.status());
    const auto bias = find_load_bias(maps_, report_.program, **file);
    if (!bias)
      return note("no OCaml runtime: {}", absl::NotFoundError("the program's file has changed"));
    auto runtime = find_ocaml_runtime(**file, *bias);
    if (!runtime.ok()) {
      return note("no OCaml runtime that is known: the program {}", runtime.status());
    }
    runtime_ = *std::move(runtime);
    report_.ocaml_version = runtime_->abi.version;
  }

  void find_parts(const ClassifiedMappings& mappings) {
    if (runtime_) ocaml_.emplace(*reader_, *runtime_);
    const auto arenas = find_arenas(*reader_, mappings.libc_data);
    walk_ = std::make_unique<MallocWalk>(
        *reader_,
        [this](std::uint64_t user, std::uint64_t bytes) {
          return ocaml_ ? ocaml_->look_at_chunk(user, bytes) : std::nullopt;
        },
        MallocOptions{.max_kept = options_.owners ? kMaxOwned : 0,
                      .deadline = std::chrono::steady_clock::now() + kWalkTime,
                      .stop = stop_});
    walk_arenas(arenas, mappings);
    if (ocaml_) ocaml_->find_heaps(heaps_);
    heaps_.seal();
    find_mapped(arenas, mappings);
    walk_->chunks().seal();
    walk_->find_cached(arenas);
    if (ocaml_) ocaml_->find_tables(*walk_, tables_);
    tables_.seal();
    stacks_.seal();
    tell_of_malloc(arenas, mappings);
    tell_of_ocaml();
  }

  void walk_arenas(const std::vector<Arena>& arenas, const ClassifiedMappings& mappings) {
    for (std::size_t i = 0; i < arenas.size(); ++i) {
      walk_->walk_arena(arenas[i], static_cast<std::uint32_t>(i), mappings.break_heap);
      report_.arenas.push_back({.is_main = arenas[i].is_main, .system = arenas[i].system_bytes});
    }
  }

  // What of it is resident, for those who look at each page.
  std::vector<Stretch> resident_runs(const Stretch& stretch) {
    std::vector<Stretch> runs;
    const absl::Status scanned = pages_->scan(stretch.begin, stretch.end, [&](const PageRun& run) {
      if (run.swapped || runs.size() >= kMaxRuns) return;
      const bool continues = !runs.empty() && runs.back().end == run.begin;
      if (continues) {
        runs.back().end = run.end;
      } else {
        runs.push_back({run.begin, run.end});
      }
    });
    return scanned.ok() ? runs : std::vector<Stretch>();
  }

  // Chunks with mappings of their own and threads' stacks, in what nothing is known of yet.
  void find_mapped(const std::vector<Arena>& arenas, const ClassifiedMappings& mappings) {
    ExtentLayer known = heaps_;
    for (const Arena& arena : arenas) {
      for (const ArenaHeap& heap : arena.heaps) {
        known.add({.begin = heap.begin, .end = heap.begin + kArenaHeapBytes});
      }
    }
    known.seal();
    for (const Stretch& stretch : mappings.guarded) {
      if (known.find(stretch.begin) != nullptr) continue;
      find_thread_stack(*reader_, stretch, resident_runs(stretch), stacks_);
    }
    for (const Extent& stack : stacks_.extents()) known.add(stack);
    known.seal();
    if (arenas.empty()) return;
    for (const Stretch& stretch : mappings.anonymous) {
      walk_->walk_mapped(stretch, resident_runs(stretch), known);
    }
  }

  void tell_of_malloc(const std::vector<Arena>& arenas, const ClassifiedMappings& mappings) {
    report_.walked_chunks = walk_->walked();
    report_.mapped_chunks = walk_->mapped();
    report_.allocator = mappings.other_allocator;
    if (report_.allocator.empty() && !arenas.empty()) report_.allocator = "glibc";
    if (!mappings.other_allocator.empty()) {
      report_.notes.push_back(
          fmt::format("the C allocator is {}: its memory is not split and counts as not known",
                      mappings.other_allocator));
    } else if (arenas.empty()) {
      report_.notes.push_back(
          "the C allocator is not glibc's, or was never used: what it has counts as not known");
    }
    if (!walk_->complete()) {
      report_.notes.push_back(
          "malloc has more chunks than were walked in time: the rest counts as "
          "in use or free");
    }
  }

  void tell_of_ocaml() {
    if (reader_->late()) {
      report_.notes.push_back(
          "not all of the memory could be looked at in time: what was not reached counts as not "
          "known");
    }
    if (!ocaml_) return;
    report_.ocaml_domains = ocaml_->counts().domains;
    report_.space_overhead = ocaml_->counts().percent_free;
    if (!ocaml_->why_no_heap().empty()) {
      report_.notes.push_back(
          fmt::format("the OCaml heap is not told apart: {}", ocaml_->why_no_heap()));
    }
  }

  // Mappings are read again: what has come since counts too.
  absl::Status count() {
    RETURN_IF_ERROR(read_maps());
    const ClassifiedMappings mappings = classify_mappings(maps_, report_.program, names_);
    const ExtentLayer* const layers[] = {&mappings.layer,  &stacks_, &walk_->chunks(),
                                         &walk_->cached(), &tables_, &heaps_};
    for (const Extent& mapping : mappings.layer.extents()) {
      cut_by_layers(layers, mapping.begin, mapping.end, [this](const Extent& piece) {
        amounts(piece).size += piece.end - piece.begin;
      });
    }
    for (const Extent& mapping : mappings.layer.extents()) {
      RETURN_IF_ERROR(pages_->scan(mapping.begin, mapping.end, [&](const PageRun& run) {
        cut_by_layers(layers, run.begin, run.end,
                      [&](const Extent& piece) { count_piece(piece, run.swapped); });
        if (options_.owners && !run.swapped) count_owned(run);
      }));
    }
    ASSIGN_OR_RETURN(report_.status, read_memory_status(report_.pid));
    return memory_->check();
  }

  void count_owned(const PageRun& run) {
    const ExtentLayer* const layers[] = {&owned_};
    cut_by_layers(layers, run.begin, run.end, [this](const Extent& piece) {
      if (piece.name != 0) owners_.add_resident(piece.name - 1, piece.end - piece.begin);
    });
  }

  Amounts& amounts(const Extent& piece) {
    return amounts_[{piece.kind, has_names(piece.kind) ? piece.name : 0}];
  }

  void count_piece(const Extent& piece, bool swapped) {
    const std::uint64_t bytes = piece.end - piece.begin;
    if (swapped) {
      amounts(piece).swapped += bytes;
      return;
    }
    report_.counted += bytes;
    amounts(piece).resident += bytes;
    if (piece.kind == RssClass::kMallocFree) {
      const std::uint64_t first = (piece.begin + kPageBytes - 1) / kPageBytes * kPageBytes;
      const std::uint64_t last = piece.end / kPageBytes * kPageBytes;
      report_.trimmable += last - std::min(first, last);
    }
    if (!has_names(piece.kind)) count_in_arena(piece, bytes);
  }

  void count_in_arena(const Extent& piece, std::uint64_t bytes) {
    if (piece.name == 0 || piece.name > report_.arenas.size()) return;
    RssArena& arena = report_.arenas[piece.name - 1];
    if (piece.kind == RssClass::kMallocFree) arena.free += bytes;
    if (piece.kind == RssClass::kMallocCache) arena.cached += bytes;
    if (piece.kind == RssClass::kMallocUnwalked) arena.unwalked += bytes;
    if (piece.kind == RssClass::kMallocUsed || piece.kind == RssClass::kFiberStack) {
      arena.used += bytes;
    }
  }

  // The runtime counts what is free, not where. Blocks were written to: their pages are resident or
  // swapped out; what is resident beyond them is room.
  void split_ocaml_heap() {
    if (!ocaml_ || !ocaml_->counts().known) return;
    const auto found = amounts_.find({RssClass::kOcamlUsed, 0});
    if (found == amounts_.end()) return;
    const OcamlCounts& counts = ocaml_->counts();
    Amounts& used = found->second;
    const std::uint64_t blocks = counts.heap - std::min(counts.free, counts.heap);
    const std::uint64_t resident = std::min(used.resident, blocks - std::min(blocks, used.swapped));
    Amounts& free = amounts_[{RssClass::kOcamlFree, 0}];
    free.resident += used.resident - resident;
    free.size += used.size - std::min(used.size, blocks);
    used.resident = resident;
    used.size = std::min(used.size, blocks);
  }

  // The identifiers of custom blocks may be where nobody has looked for long: a page for each is
  // read all the same.
  std::string identifier(std::uint64_t operations) const {
    std::string name = custom_identifier(*reader_, operations);
    return name.empty() ? custom_identifier(*memory_, operations) : name;
  }

  void find_owners() {
    if (!ocaml_ || !ocaml_->counts().known) {
      report_.notes.push_back("what custom blocks hold is not known without the OCaml heap");
      return;
    }
    ChunkOwners chunks(*reader_, std::move(walk_->kept()));
    chunks.exclude(heaps_);
    chunks.exclude(walk_->cached());
    const SparseMemory heap(*memory_, *pages_, SparseMemory::Clock::now() + kWalkTime, stop_);
    owners_.find(heap, ocaml_->heap_map(), chunks);
    chunks.exclude(tables_);
    chunks.follow();
    owners_.sum_up(chunks, owned_);
    report_.has_owners = true;
    if (!walk_->kept_all()) {
      report_.notes.push_back(fmt::format(
          "who holds what was asked for {} chunks of malloc only: it has more", kMaxOwned));
    }
    const std::uint64_t lost = owners_.lost_bytes() + heap.swapped_bytes();
    if (lost == 0) return;
    report_.notes.push_back(fmt::format(
        "what custom blocks hold in {} bytes of the OCaml heap, which could not be walked", lost));
  }

  void make_parts() {
    for (const auto& [key, amounts] : amounts_) {
      report_.parts.push_back({.kind = key.first,
                               .name = names_.name(key.second),
                               .resident = amounts.resident,
                               .size = amounts.size,
                               .swapped = amounts.swapped});
    }
    std::ranges::stable_sort(report_.parts, [](const RssPart& a, const RssPart& b) {
      return std::pair(a.kind, b.resident) < std::pair(b.kind, a.resident);
    });
  }

  void note(fmt::format_string<std::string> text, const absl::Status& status) {
    report_.notes.push_back(fmt::format(text, std::string(status.message())));
  }

  const RssOptions options_;
  std::stop_token stop_;
  RssReport report_;
  std::unique_ptr<TargetMemory> memory_;
  std::unique_ptr<PageMap> pages_;
  std::unique_ptr<ResidentReader> reader_;
  std::vector<Mapping> maps_;
  PartNames names_;
  std::optional<OcamlRuntime> runtime_;
  std::optional<OcamlParts> ocaml_;
  std::unique_ptr<MallocWalk> walk_;
  ExtentLayer stacks_, tables_, heaps_, owned_;
  CustomOwners owners_{[this](std::uint64_t operations) { return identifier(operations); }};
  std::map<std::pair<RssClass, std::uint32_t>, Amounts> amounts_;
};

}  // namespace

std::uint64_t RssReport::resident(RssClass kind) const {
  std::uint64_t bytes = 0;
  for (const RssPart& part : parts) bytes += part.kind == kind ? part.resident : 0;
  return bytes;
}

absl::StatusOr<RssReport> account_rss(int pid, RssOptions options, const std::stop_token& stop) {
  return Accounting(pid, options, stop).run();
}

}  // namespace memprofd
