// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/taking/heap_writing.h"

#include <utility>
#include <vector>

#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// The memory of the copy, as long as somebody wants what is written.
class WantedMemory : public MemoryReader {
 public:
  WantedMemory(const MemoryReader& memory, const HeapFileWriter& writer)
      : memory_(memory), writer_(writer) {}
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    RETURN_IF_ERROR(writer_.status());
    return memory_.read(address, out);
  }

 private:
  const MemoryReader& memory_;
  const HeapFileWriter& writer_;
};

}  // namespace

HeapWriting::HeapWriting(const HeapSource& source, const HeapLayout& layout, const HeapCopy& copy,
                         HeapFileWriter::Sink sink)
    : source_(source),
      target_(source.ticket->target),
      layout_(layout),
      copy_(copy),
      writer_(std::move(sink), {}) {}

absl::Status HeapWriting::run() {
  const std::vector<std::uint64_t> states{target_.caml_state_address};
  ASSIGN_OR_RETURN(map_, map_heap(copy_.memory(), layout_, states));
  writer_.begin(info(), map_);
  add_roots();
  const auto visit = [this](const HeapRegion& region, const BlockPart& part) {
    census_(region, part);
    writer_(region, part);
  };
  RETURN_IF_ERROR(walk_heap(WantedMemory(copy_.memory(), writer_), map_, visit));
  RETURN_IF_ERROR(census_.check(map_));
  return writer_.end(census_);
}

ImageInfo HeapWriting::info() const {
  return {.program = target_.exe,
          .pid = static_cast<std::uint32_t>(target_.pid),
          .ocaml_version = target_.abi.version,
          .unix_ns = static_cast<std::int64_t>(realtime_ns()),
          .pause_ns = copy_.pause_ns(),
          .sampling_rate = source_.sampling_rate,
          .heap_words = map_.sums.heap_words};
}

void HeapWriting::add_roots() {
  for (const memprof_root& root : copy_.roots()) writer_.add_root(root.value, {});
}

void HeapWriting::describe(HeapSummary& summary) const {
  summary.heap_words = map_.sums.heap_words;
  summary.blocks = census_.major(BlockState::kUsed).blocks + census_.minor().blocks;
  summary.file_bytes = writer_.bytes();
}

}  // namespace memprofd
