// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/residency_scan.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "daemon/rss/mapping_classes.h"
#include "daemon/rss/page_map.h"
#include "daemon/rss/part_finder.h"
#include "daemon/rss/resident_reader.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Blocks closer to each other than this are examined in one step.
constexpr std::uint64_t kNear = std::uint64_t{1} << 20;

std::uint64_t page_of(std::uint64_t address) { return address / kPageBytes * kPageBytes; }
std::uint64_t end_of(const NativeBlock& block) { return block.address + block.bytes; }

class ResidencyReader {
 public:
  ResidencyReader(int pid, const TargetMemory& memory, std::vector<NativeBlock> blocks,
                  const std::stop_token& stop)
      : pid_(pid), memory_(memory), blocks_(std::move(blocks)), stop_(stop) {
    std::ranges::sort(blocks_, {}, &NativeBlock::address);
  }

  absl::StatusOr<ResidencyScan> run() {
    ASSIGN_OR_RETURN(PageMap pages, PageMap::open(pid_));
    pages_ = std::make_unique<PageMap>(std::move(pages));
    ASSIGN_OR_RETURN(maps_, memory_.maps());
    RETURN_IF_ERROR(check_number(maps_, pid_));
    for (NativeBlock& block : blocks_) {
      scan_.push_back({.number = block.number});
      block.bytes = std::min(block.bytes, mapped_from(block.address));
    }
    find_gone();
    RETURN_IF_ERROR(count());
    RETURN_IF_ERROR(memory_.check());
    return std::move(scan_);
  }

 private:
  // Number of bytes from this address on in consecutive mappings.
  std::uint64_t mapped_from(std::uint64_t address) const {
    auto after = std::ranges::upper_bound(maps_, address, {}, &Mapping::begin);
    if (after == maps_.begin() || address >= std::prev(after)->end) return 0;
    std::uint64_t end = std::prev(after)->end;
    for (; after != maps_.end() && after->begin == end; ++after) end = after->end;
    return end - address;
  }

  // Finds blocks that malloc lists as free, or keeps in a cache.
  void find_gone() {
    const std::string exe = ProcFs().exe(pid_).value_or("");
    PartNames names;
    const ClassifiedMappings mappings = classify_mappings(maps_, exe, names);
    const ResidentReader reader(memory_, *pages_, ResidentReader::Clock::now() + kChunkWalkTime,
                                stop_);
    PartFinder parts(reader, *pages_, nullptr, 0, stop_);
    if (mappings.other_allocator.empty()) parts.find(mappings);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const std::uint64_t address = blocks_[i].address;
      const Extent* chunk = parts.walk().chunks().find(address);
      scan_[i].gone = mapped_from(address) == 0 ||
                      (chunk != nullptr && chunk->kind == RssClass::kMallocFree) ||
                      parts.walk().cached().find(address) != nullptr;
    }
  }

  absl::Status count() {
    for (std::size_t first = 0, next = 0; first < blocks_.size(); first = next) {
      std::uint64_t end = end_of(blocks_[first]);
      for (next = first + 1; next < blocks_.size() && blocks_[next].address < end + kNear; ++next) {
        end = std::max(end, end_of(blocks_[next]));
      }
      RETURN_IF_ERROR(count_some(first, next, end));
    }
    return absl::OkStatus();
  }

  absl::Status count_some(std::size_t first, std::size_t next, std::uint64_t end) {
    std::vector<std::uint64_t> resident(next - first);
    const std::uint64_t begin = page_of(blocks_[first].address);
    std::size_t at = first;
    RETURN_IF_ERROR(pages_->scan(begin, page_of(end + kPageBytes - 1), [&](const PageRun& run) {
      if (run.swapped) return;
      while (at < next && end_of(blocks_[at]) <= run.begin) ++at;
      for (std::size_t i = at; i < next && blocks_[i].address < run.end; ++i) {
        const std::uint64_t from = std::max(blocks_[i].address, run.begin);
        const std::uint64_t to = std::min(end_of(blocks_[i]), run.end);
        if (from < to) resident[i - first] += to - from;
      }
    }));
    for (std::size_t i = first; i < next; ++i) {
      const auto bytes = static_cast<float>(std::max<std::uint64_t>(blocks_[i].bytes, 1));
      scan_[i].share = std::min(1.0F, static_cast<float>(resident[i - first]) / bytes);
    }
    return absl::OkStatus();
  }

  const int pid_;
  const TargetMemory& memory_;
  std::vector<NativeBlock> blocks_;  // by address
  std::stop_token stop_;
  std::unique_ptr<PageMap> pages_;
  std::vector<Mapping> maps_;
  ResidencyScan scan_;
};

}  // namespace

absl::StatusOr<ResidencyScan> scan_residency(int pid, const TargetMemory& memory,
                                             std::vector<NativeBlock> blocks,
                                             const std::stop_token& stop) {
  return ResidencyReader(pid, memory, std::move(blocks), stop).run();
}

}  // namespace memprofd
