// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/part_finder.h"

#include <cstdint>
#include <utility>

#include "daemon/rss/thread_stacks.h"

namespace memprofd {
namespace {

constexpr std::size_t kMaxRuns = 1u << 20;  // maximum number of resident runs of one mapping

}  // namespace

PartFinder::PartFinder(const ResidentReader& reader, const PageMap& pages,
                       const OcamlRuntime* runtime, std::size_t max_kept, std::stop_token stop,
                       const HeapMap* heap)
    : reader_(reader),
      pages_(pages),
      walk_(reader,
            [this](std::uint64_t user, std::uint64_t bytes) {
              return ocaml_ ? ocaml_->check_chunk(user, bytes) : std::nullopt;
            },
            {.max_kept = max_kept,
             .deadline = std::chrono::steady_clock::now() + kChunkWalkTime,
             .stop = std::move(stop)}) {
  if (runtime != nullptr) ocaml_.emplace(reader, *runtime, heap);
}

void PartFinder::find(const ClassifiedMappings& mappings) {
  arenas_ = find_arenas(reader_, mappings.libc_data);
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    walk_.walk_arena(arenas_[i], static_cast<std::uint32_t>(i), mappings.break_heap);
  }
  if (ocaml_) ocaml_->find_heaps(heaps_);
  heaps_.seal();
  find_mapped(mappings);
  walk_.chunks().seal();
  walk_.find_cached(arenas_);
  if (ocaml_) ocaml_->find_tables(walk_, tables_, channels_);
  stacks_.seal();
  if (ocaml_) find_lost_pools(mappings);
  tables_.seal();
  channels_.seal();
  read_all_ = !reader_.late() && walk_.complete();
  uses_known_ = !reader_.late() && (!ocaml_ || ocaml_->is_known(walk_.complete()));
}

RssClass PartFinder::certain(RssClass kind) const {
  const bool is_in_use = kind == RssClass::kOcamlUsed || kind == RssClass::kMallocUsed ||
                         kind == RssClass::kMallocMmapped;
  const bool is_unknown = kind == RssClass::kMallocUnwalked || kind == RssClass::kOther;
  return (is_in_use && !uses_known_) || (is_unknown && !read_all_) ? RssClass::kNotRead : kind;
}

void PartFinder::find_lost_pools(const ClassifiedMappings& mappings) {
  const ExtentLayer* const known[] = {&heaps_, &stacks_, &walk_.chunks()};
  for (const AddressSpan& span : mappings.anonymous) {
    ocaml_->find_unlisted_pools(span, resident_runs(span), known);
  }
  ocaml_->add_unlisted_pools(reader_.unguarded(), tables_);
}

std::uint64_t PartFinder::number_of(RssClass kind) const {
  if (kind == RssClass::kThreadStack) return thread_stacks_;
  if (!ocaml_) return 0;
  if (kind == RssClass::kChannel) return ocaml_->counts().channels;
  if (kind == RssClass::kFiberStack) return ocaml_->counts().stacks;
  if (kind == RssClass::kLostPool) return ocaml_->counts().lost_pools;
  return 0;
}

// The resident parts of a span, for callers that read each page.
std::vector<AddressSpan> PartFinder::resident_runs(const AddressSpan& span) const {
  std::vector<AddressSpan> runs;
  const absl::Status scanned = pages_.scan(span.begin, span.end, [&](const PageRun& run) {
    if (run.swapped || runs.size() >= kMaxRuns) return;
    const bool continues = !runs.empty() && runs.back().end == run.begin;
    if (continues) {
      runs.back().end = run.end;
    } else {
      runs.push_back({run.begin, run.end});
    }
  });
  return scanned.ok() ? runs : std::vector<AddressSpan>();
}

// Finds stacks that follow an inaccessible mapping or a guard region. glibc 2.42 and later has
// guard regions below stacks, so the kernel makes one mapping of many stacks.
std::vector<AddressSpan> PartFinder::guarded(const ClassifiedMappings& mappings) const {
  std::vector<AddressSpan> all = mappings.guarded;
  for (const AddressSpan& span : mappings.anonymous) {
    const std::size_t before = all.size();
    const absl::Status scanned = pages_.scan_guards(span.begin, span.end, [&](PageRun run) {
      if (all.size() > before) all.back().end = run.begin;
      if (run.end < span.end && all.size() < kMaxRuns) all.push_back({run.end, span.end});
    });
    if (!scanned.ok()) all.resize(before);
  }
  return all;
}

// Finds chunks with mappings of their own and threads' stacks in the memory that is still unknown.
void PartFinder::find_mapped(const ClassifiedMappings& mappings) {
  ExtentLayer known = heaps_;
  for (const Arena& arena : arenas_) {
    for (const ArenaHeap& heap : arena.heaps) {
      known.add({.begin = heap.begin, .end = heap.begin + kArenaHeapBytes});
    }
  }
  known.seal();
  for (const AddressSpan& span : guarded(mappings)) {
    if (known.find(span.begin) != nullptr) continue;
    const bool found = find_thread_stack(reader_, span, resident_runs(span), stacks_);
    thread_stacks_ += found ? 1 : 0;
  }
  thread_stacks_ += mappings.has_main_stack ? 1 : 0;
  for (const Extent& stack : stacks_.extents()) known.add(stack);
  known.seal();
  if (arenas_.empty()) return;
  for (const AddressSpan& span : mappings.anonymous) {
    walk_.walk_mapped(span, resident_runs(span), known);
  }
}

}  // namespace memprofd
