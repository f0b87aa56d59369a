// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/ocaml_parts.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daemon/discover/minor_heap.h"
#include "daemon/discover/program_check.h"
#include "daemon/discover/target_memory.h"
#include "daemon/rss/page_map.h"
#include "daemon/rss/runtime_shapes.h"
#include "daemon/runtime/pool_offsets.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/heap_lists.h"
#include "daemon/util/refusal.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::size_t kMaxDomains = 4096;
constexpr std::size_t kMaxFound = 1u << 20;  // maximum number of channels and tables of frame
                                             // descriptors
constexpr int kHeapTries = 3;                // a heap that grows during the reading does not add up
constexpr std::uint64_t kPoolBytes = PoolHeap::kPoolWords * kWordBytes;
constexpr std::uint64_t kPoolClass = 24;
// Chunks of large blocks are larger than the largest slot of a pool. glibc rounds sizes up to 16
// bytes, and maps large chunks in whole pages.
constexpr std::uint64_t kMinLargeBytes = 128 * kWordBytes;
constexpr std::uint64_t kMinMappedBytes = 128u << 10;
constexpr std::uint64_t kMallocRest = 32;
// Lists of a running program may be longer than its counters say.
constexpr std::uint64_t kPoolsMore = 4096;

// Maximum number of views of all pools, and of pools in a view: those of a heap of 16 GiB.
constexpr int kMaxViews = 16;
constexpr std::size_t kMaxViewedPools = 1u << 19;

// Number of words of a state, and of the tables that it points to, that are searched.
constexpr std::size_t kStateWords = 56;
constexpr std::size_t kTableWords = 25;

// Address of the list of free pools, which follows the lock of those of ended domains.
std::uint64_t free_pools_of(const PoolHeap& heap) {
  return heap.orphans + kOrphanStats - kWordBytes;
}

}  // namespace

absl::StatusOr<OcamlRuntime> find_ocaml_runtime(const ElfFile& program, std::uint64_t load_bias) {
  ASSIGN_OR_RETURN(const OcamlProgram ocaml, check_program(program));
  OcamlRuntime runtime{.abi = ocaml.abi};
  if (const absl::Status known = check_capability(ocaml.abi, Capability::kRss); !known.ok()) {
    return reworded(known, absl::StrCat("(", program.display_name(), "): ", known.message()));
  }
  auto layout = find_heap_layout(program, load_bias, ocaml.abi);
  if (layout.ok()) {
    runtime.layout = *std::move(layout);
  } else {
    runtime.why_no_heap = std::string(layout.status().message());
  }
  static constexpr std::string_view kNames[] = {"caml_fl_cur_wsz", "caml_percent_free"};
  std::uint64_t* const places[] = {&runtime.free_words, &runtime.percent_free};
  const auto found = program.find_symbols(kNames);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i]) *places[i] = load_bias + found[i]->address;
  }
  if (!ocaml.abi.domains) runtime.state_pointer = load_bias + ocaml.symbols.state.address;
  return runtime;
}

std::optional<RssClass> OcamlParts::check_chunk(std::uint64_t user, std::uint64_t bytes) {
  // Custom blocks may hold a channel: it stays a chunk until find_tables().
  if (channels_.size() < kMaxFound) {
    if (const auto channel = find_channel(memory_, user, bytes)) {
      channels_.push_back(*channel);
      return std::nullopt;
    }
  }
  if (frame_tables_.size() < kMaxFound && is_frame_table(memory_, user, bytes)) {
    frame_tables_.push_back(user);
    return std::nullopt;
  }
  if (!runtime_.abi.domains) return std::nullopt;
  // A domain's heap and its state point to each other.
  std::uint64_t state = 0, heap = 0;
  if (bytes >= kHeapBytes && bytes < 2 * kHeapBytes && heap_states_.size() < kMaxDomains &&
      memory_.read_value(user + kHeapOwner, state).ok() && state % kWordBytes == 0 && state != 0 &&
      memory_.read_value(state + runtime_.abi.shared_heap, heap).ok() && heap == user) {
    heap_states_.push_back(user);
    states_.push_back(state);
    return RssClass::kRuntimeTable;
  }
  if (is_fiber_stack(memory_, user, bytes)) {
    ++counts_.stacks;
    return RssClass::kFiberStack;
  }
  note_large_block(user, bytes);
  return std::nullopt;
}

// The list of large blocks changes while it is read, and its end may be missed. A chunk that such a
// block fills is recognized by itself: by its size, and later by its domain.
void OcamlParts::note_large_block(std::uint64_t user, std::uint64_t bytes) {
  std::array<std::uint64_t, kLargeHeadWords + 1> head{};
  if (bytes < kMinLargeBytes || large_chunks_.size() == kMaxFound ||
      !memory_.read_value(user, head).ok()) {
    return;
  }
  const std::uint64_t words = kLargeHeadWords + words_with_header(head[kLargeHeadWords]);
  const std::uint64_t rest = bytes < kMinMappedBytes ? kMallocRest : kPageBytes;
  bytes += kWordBytes;  // the first word of the next chunk also belongs to this one
  if (words > bytes / kWordBytes || bytes - words * kWordBytes >= rest) return;
  large_chunks_.push_back({.block = user, .words = words, .domain = head[0]});
}

void OcamlParts::find_heaps(ExtentLayer& out) {
  why_no_heap_ = runtime_.why_no_heap;
  if (runtime_.percent_free != 0) {
    (void)memory_.read_value(runtime_.percent_free, counts_.percent_free).ok();
  }
  if (!runtime_.abi.domains) {
    std::uint64_t state = 0;
    if (!memory_.read_value(runtime_.state_pointer, state).ok() || state == 0) {
      why_no_heap_ = "the runtime has not started";
      return;
    }
    states_ = {state};
  }
  find_major_heap(out);
  counts_.known = why_no_heap_.empty();
  counts_.domains = states_.size();
  for (const std::uint64_t state : states_) add_minor_heap(state, out);
}

void OcamlParts::find_major_heap(ExtentLayer& out) {
  if (heap_ != nullptr) {
    for (const HeapRegion& region : heap_->regions) {
      if (region.kind == RegionKind::kMinor) continue;
      out.add({.begin = region.head(), .end = region.end(), .kind = RssClass::kOcamlUsed});
    }
  } else if (runtime_.abi.domains) {
    find_pool_heaps(out);
  } else {
    find_chunk_heap(out);
  }
  std::uint64_t first_free = 0, room = ExtentLayer::kMaxExtents;
  const PoolHeap* const heap = pool_layout();
  if (heap != nullptr && memory_.read_value(free_pools_of(*heap), first_free).ok()) {
    follow_pools(first_free, RssClass::kOcamlFree, room, out);
  }
}

const PoolHeap* OcamlParts::pool_layout() const {
  return runtime_.layout ? std::get_if<PoolHeap>(&runtime_.layout->heap) : nullptr;
}

std::vector<OcamlParts::PoolLists> OcamlParts::pool_lists() const {
  std::vector<PoolLists> all;
  for (const std::uint64_t heap : heap_states_) {
    all.push_back({.stats = heap + kHeapStats,
                   .pools = heap + kHeapPoolLists,
                   .pool_lists = PoolHeap::kClasses * kHeapPoolArrays,
                   .large = heap + kHeapLargeLists,
                   .large_lists = 2});
  }
  if (const auto* pools = pool_layout()) {
    all.push_back({.stats = pools->orphans + kOrphanStats,
                   .pools = pools->orphans + kOrphanPoolLists,
                   .pool_lists = PoolHeap::kClasses * kOrphanPoolArrays,
                   .large = pools->orphans + kOrphanLargeList,
                   .large_lists = 1});
  }
  return all;
}

void OcamlParts::find_pool_heaps(ExtentLayer& out) {
  for (const PoolLists& lists : pool_lists()) find_pool_heap(lists, out);
  if (heap_states_.empty()) why_no_heap_ = "no domain was found among malloc's chunks";
  for (const LargeChunk& chunk : large_chunks_) {
    const bool is_of_domain =
        chunk.domain == 0 || std::ranges::find(states_, chunk.domain) != states_.end();
    if (is_of_domain) add_large_block(chunk.block, chunk.words, out);
  }
}

// A list that changes while it is read does not add up, and is read again.
void OcamlParts::find_chunk_heap(ExtentLayer& out) {
  const auto* heap = runtime_.layout ? std::get_if<ChunkHeap>(&runtime_.layout->heap) : nullptr;
  if (heap == nullptr) return;
  absl::Status listed;
  HeapMap map;
  for (int i = 0; i < kHeapTries; ++i) {
    map = {};
    listed = list_chunks(memory_, runtime_.abi, *heap, states_[0], map);
    if (listed.ok()) break;
  }
  std::uint64_t free_words = 0;
  if (listed.ok() && runtime_.free_words != 0) {
    listed = memory_.read_value(runtime_.free_words, free_words);
  }
  if (!listed.ok()) {
    why_no_heap_ = std::string(listed.message());
    return;
  }
  for (const HeapRegion& region : map.regions) {
    out.add({.begin = region.begin, .end = region.end(), .kind = RssClass::kOcamlUsed});
    chunks_.push_back(region.end() - region.begin);
  }
  regions_ = std::move(map.regions);
  counts_.heap = map.sums.heap_words * kWordBytes;
  counts_.free = std::min(free_words * kWordBytes, counts_.heap);
}

void OcamlParts::find_pool_heap(const PoolLists& lists, ExtentLayer& out) {
  std::array<std::uint64_t, 8> stats{};
  std::vector<std::uint64_t> pools(lists.pool_lists), large(lists.large_lists);
  const auto bytes_of = [](auto& words) { return std::as_writable_bytes(std::span(words)); };
  if (!memory_.read_value(lists.stats, stats).ok() ||
      !memory_.read(lists.pools, bytes_of(pools)).ok() ||
      !memory_.read(lists.large, bytes_of(large)).ok()) {
    why_no_heap_ = "the heap of a domain cannot be read";
    return;
  }
  const auto stat = [&](std::uint32_t at) { return stats[at / kWordBytes]; };
  std::uint64_t room = stat(kStatPoolWords) / PoolHeap::kPoolWords + kPoolsMore;
  for (const std::uint64_t first : pools) follow_pools(first, RssClass::kOcamlUsed, room, out);
  room = stat(kStatLargeBlocks) + kPoolsMore;
  for (const std::uint64_t first : large) follow_large(first, room, out);
  const std::uint64_t pool_words = stat(kStatPoolWords), live = stat(kStatPoolLiveWords);
  const std::uint64_t free = (pool_words - std::min(pool_words, live)) * kWordBytes;
  counts_.heap += (pool_words + stat(kStatLargeWords)) * kWordBytes;
  counts_.free += free;
  // Blocks move to the free slots of other pools of their class, and the last of these pools stays:
  // on average half of it is free. Blocks never fill the rest of their slots.
  const auto classes = std::min(static_cast<std::ptrdiff_t>(PoolHeap::kClasses), std::ssize(pools));
  const auto used = classes - std::count(pools.begin(), pools.begin() + classes, 0);
  counts_.free_kept += std::min(free, stat(kStatPoolUnusableWords) * kWordBytes +
                                          static_cast<std::uint64_t>(used) * kPoolBytes / 2);
}

void OcamlParts::follow_pools(std::uint64_t first, RssClass kind, std::uint64_t& room,
                              ExtentLayer& out) {
  for (std::uint64_t pool = first; pool != 0 && room > 0; --room) {
    std::uint64_t next = 0;
    if (pool % kWordBytes != 0 || !memory_.read_value(pool, next).ok()) return;
    if (listed_pools_.size() < kMaxViewedPools) listed_pools_.push_back(pool);
    add_pool(pool, kind, out);
    pool = next;
  }
}

void OcamlParts::add_pool(std::uint64_t pool, RssClass kind, ExtentLayer& out) {
  out.add({.begin = pool, .end = pool + kPoolBytes, .kind = kind});
  if (kind == RssClass::kOcamlUsed) add_pool_region(pool);
}

void OcamlParts::add_pool_region(std::uint64_t pool) {
  std::uint32_t size_class = 0;
  const PoolHeap* const heap = pool_layout();
  if (heap == nullptr || !memory_.read_value(pool + kPoolClass, size_class).ok()) return;
  size_class &= runtime_.abi.pool_class_mask;
  if (size_class >= heap->slot_words.size() || heap->slot_words[size_class] == 0) {
    return;
  }
  const std::uint32_t slot = heap->slot_words[size_class];
  const std::uint64_t words = (PoolHeap::kPoolWords - PoolHeap::kHeadWords) / slot * slot;
  regions_.push_back({.begin = pool + kPoolBytes - words * kWordBytes,
                      .words = words,
                      .slot_words = slot,
                      .kind = RegionKind::kPool});
}

// A large block: its domain, the next one, its header, its fields.
void OcamlParts::follow_large(std::uint64_t first, std::uint64_t& room, ExtentLayer& out) {
  for (std::uint64_t block = first; block != 0 && room > 0; --room) {
    std::array<std::uint64_t, kLargeHeadWords + 1> head{};
    if (block % kWordBytes != 0 || !memory_.read_value(block, head).ok()) return;
    const std::uint64_t words = kLargeHeadWords + words_with_header(head[kLargeHeadWords]);
    if (!add_large_block(block, words, out)) return;
    block = head[1];
  }
}

// words: with those in front of the header. Returns false if it is known already.
bool OcamlParts::add_large_block(std::uint64_t block, std::uint64_t words, ExtentLayer& out) {
  if (!large_blocks_.insert(block).second) return false;
  out.add({.begin = block, .end = block + words * kWordBytes, .kind = RssClass::kOcamlUsed});
  regions_.push_back({.begin = block + kLargeHeadWords * kWordBytes,
                      .words = words - kLargeHeadWords,
                      .kind = RegionKind::kLarge});
  return true;
}

void OcamlParts::add_minor_heap(std::uint64_t state, ExtentLayer& out) {
  const auto heap = read_minor_heap(memory_, runtime_.abi, state);
  if (!heap) return;
  const auto [begin, end] = *heap;
  out.add({.begin = begin, .end = end, .kind = RssClass::kMinorHeap});
  // The youngest block is where the program last stored it.
  std::uint64_t first = 0, last = 0;
  if (!memory_.read_value(state + runtime_.abi.young_ptr, first).ok() ||
      !memory_.read_value(state + runtime_.abi.young_alloc_end, last).ok() || first < begin ||
      last > end || first >= last || (first | last) % kWordBytes != 0) {
    return;
  }
  regions_.push_back(
      {.begin = first, .words = (last - first) / kWordBytes, .kind = RegionKind::kMinor});
}

HeapMap OcamlParts::heap_map() const {
  HeapMap map{.regions = {},
              .colours = {.domains = runtime_.abi.domains, .free_runs = runtime_.abi.free_runs}};
  std::vector<HeapRegion> regions = regions_;
  std::ranges::sort(regions, {}, &HeapRegion::begin);
  std::uint64_t end = 0;
  for (const HeapRegion& region : regions) {
    if (region.begin < end || region.end() <= region.begin) continue;
    end = region.end();
    map.regions.push_back(region);
  }
  return map;
}

OcamlParts::PoolView OcamlParts::view_pools(const MemoryReader& resident) const {
  PoolView view;
  std::vector<std::uint64_t> pools = listed_pools_;
  pools.insert(pools.end(), unlisted_pools_.begin(), unlisted_pools_.end());
  const std::vector<PoolLists> all = pool_lists();
  std::vector<std::vector<std::uint64_t>> firsts;
  std::vector<PoolHead> heads(pools.size());
  std::vector<MemoryPiece> pieces;
  const auto add = [&](std::uint64_t address, auto words) {
    pieces.push_back({address, std::as_writable_bytes(std::span(words))});
  };
  for (const PoolLists& lists : all) firsts.emplace_back(lists.pool_lists);
  for (std::size_t i = 0; i < all.size(); ++i) add(all[i].pools, std::span(firsts[i]));
  if (const PoolHeap* const heap = pool_layout()) {
    add(free_pools_of(*heap), std::span(&view.first_free, 1));
  }
  const std::size_t before = pieces.size();
  for (std::size_t i = 0; i < pools.size(); ++i) add(pools[i], std::span(heads[i]));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto read = read_pieces(resident, std::span<const MemoryPiece>(pieces).subspan(i));
    if (!read.ok() || (i += *read) < before) return {};
    // That one is not mapped any more, and its words are unknown.
    if (i < pieces.size()) heads[i - before] = {};
  }
  for (const auto& some : firsts) view.firsts.insert(view.firsts.end(), some.begin(), some.end());
  for (std::size_t i = 0; i < pools.size(); ++i) view.heads.emplace(pools[i], heads[i]);
  return view;
}

// A list that leads to a pool mapped since then is read on from there.
OcamlParts::PoolKinds OcamlParts::pools_in_lists(const MemoryReader& resident,
                                                 const PoolView& view) {
  PoolKinds listed;
  std::uint64_t room = kPoolsMore;
  const auto follow = [&](std::uint64_t first, RssClass kind) {
    for (std::uint64_t pool = first; pool != 0 && listed.emplace(pool, kind).second;) {
      const auto known = view.heads.find(pool);
      if (known != view.heads.end()) {
        pool = known->second[0];
      } else if (room-- == 0 || !resident.read_value(pool, pool).ok()) {
        return;
      }
    }
  };
  for (const std::uint64_t first : view.firsts) follow(first, RssClass::kOcamlUsed);
  follow(view.first_free, RssClass::kOcamlFree);
  return listed;
}

void OcamlParts::find_unlisted_pools(const AddressSpan& span, std::span<const AddressSpan> runs,
                                     std::span<const ExtentLayer* const> known) {
  if (!runtime_.abi.domains || states_.empty()) return;
  std::uint64_t page = span.begin;
  PoolHead head{};
  for (const AddressSpan& run : runs) {
    page = std::max(page, run.begin);
    while (page < run.end) {
      const auto is_known = [page](const ExtentLayer* layer) {
        return layer->find(page) != nullptr;
      };
      const bool is_unlisted =
          span.end - page >= kPoolBytes && std::ranges::none_of(known, is_known) &&
          memory_.read_value(page, head).ok() && is_pool_head(head, page, states_);
      if (is_unlisted) unlisted_pools_.push_back(page);
      page += is_unlisted ? kPoolBytes : kPageBytes;
    }
  }
}

// A compaction of OCaml 5 forgets pools that it could not unmap; their heads keep the last
// contents. Pools in use look the same if they were mapped after the lists had been read, or if the
// program moved a pool to another list while it was read, which hid the rest of the first list. So
// all heads are read again, at once.
void OcamlParts::add_unlisted_pools(const MemoryReader& resident, ExtentLayer& out) {
  const bool can_view = listed_pools_.size() + unlisted_pools_.size() <= kMaxViewedPools;
  int in_vain = 0;  // a list may be torn in each view, so the next one may show more
  for (int i = 0; can_view && i < kMaxViews && in_vain < 2 && !unlisted_pools_.empty(); ++i) {
    const PoolView view = view_pools(resident);
    const PoolKinds listed = pools_in_lists(resident, view);
    const std::size_t settled = std::erase_if(unlisted_pools_, [&](std::uint64_t pool) {
      const auto kind = listed.find(pool);
      if (kind != listed.end()) add_pool(pool, kind->second, out);
      const auto head = view.heads.find(pool);
      return kind != listed.end() ||
             (head != view.heads.end() && !is_pool_head(head->second, pool, states_));
    });
    in_vain = settled == 0 ? in_vain + 1 : 0;
  }
  const auto kind = can_view ? RssClass::kLostPool : RssClass::kOcamlUsed;
  for (const std::uint64_t pool : unlisted_pools_) add_pool(pool, kind, out);
  if (can_view) counts_.lost_pools = unlisted_pools_.size();
}

// The first class of a table stays.
void OcamlParts::add_table(const MallocWalk& chunks, std::uint64_t user, RssClass kind) {
  const auto chunk = chunks.chunk_of(user);
  if (!chunk || chunk->kind == RssClass::kFiberStack) return;
  const Extent table{.begin = chunk->begin, .end = chunk->end, .kind = kind};
  tables_.try_emplace(chunk->begin, table);
}

// Adds the remembered sets to which small structures of the state point. Appends to users all that
// may be tables: the state, what it points to, and what its small structures point to.
void OcamlParts::find_tables_of(const MallocWalk& chunks, std::uint64_t state,
                                std::vector<std::uint64_t>& users) {
  std::array<std::uint64_t, kStateWords> words{};
  users.push_back(state);
  if (!memory_.read_value(state, words).ok()) return;
  for (const std::uint64_t word : words) {
    const auto chunk = chunks.chunk_of(word);
    std::array<std::uint64_t, kTableWords> inner{};
    if (!chunk || chunk->kind == RssClass::kFiberStack) continue;
    users.push_back(word);
    // The first word of the next chunk also belongs to this one.
    const std::uint64_t bytes = chunk->end + kWordBytes - word;
    if (bytes > sizeof inner) continue;
    const auto begin = std::as_writable_bytes(std::span(inner)).first(bytes);
    if (!memory_.read(word, begin).ok()) continue;
    std::ranges::copy_if(inner, std::back_inserter(users), [](auto user) { return user != 0; });
    add_remembered_sets(chunks, inner);
  }
}

void OcamlParts::add_remembered_sets(const MallocWalk& chunks,
                                     std::span<const std::uint64_t> words) {
  for (; words.size() >= kRefTableWords; words = words.subspan(1)) {
    const auto entries = ref_table_entries(words.first<kRefTableWords>());
    if (entries) add_table(chunks, *entries, RssClass::kRememberedSet);
  }
}

// The most certain classes come first. If reading ends in between, no later class is found, so no
// table gets one that it would not have had.
void OcamlParts::find_tables(const MallocWalk& chunks, ExtentLayer& out, ExtentLayer& channels) {
  std::vector<std::uint64_t> users;
  for (const std::uint64_t state : states_) find_tables_of(chunks, state, users);
  for (const ChannelChunks& channel : channels_) {
    add_table(chunks, channel.user, RssClass::kChannel);
    if (channel.buffer != 0) add_table(chunks, channel.buffer, RssClass::kChannel);
  }
  for (const std::uint64_t user : frame_tables_) add_table(chunks, user, RssClass::kFrameTable);
  for (const std::uint64_t user : users) add_table(chunks, user, RssClass::kRuntimeTable);
  for (const auto& [begin, table] : tables_) {
    (table.kind == RssClass::kChannel ? channels : out).add(table);
  }
  counts_.channels = channels_.size();
}

}  // namespace memprofd
