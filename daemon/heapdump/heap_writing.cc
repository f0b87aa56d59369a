// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/heap_writing.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/discover/gc_stats.h"
#include "daemon/heapdump/assertion_marks.h"
#include "daemon/heapdump/buffer_finder.h"
#include "daemon/heapdump/ephemeron_list.h"
#include "daemon/heapdump/root_names.h"
#include "daemon/snapshot/outside_bytes.h"
#include "daemon/symbolize/symbol_names.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// The memory of the copy, readable as long as a client wants the file.
class WantedMemory final : public MemoryReader, public PieceReader, public MemoryViewer {
 public:
  WantedMemory(const CopyMemory& memory, const HeapFileWriter& writer)
      : memory_(memory), writer_(writer) {}
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    RETURN_IF_ERROR(writer_.status());
    return memory_.read(address, out);
  }
  absl::StatusOr<std::size_t> read_pieces(std::span<const MemoryPiece> pieces) const override {
    RETURN_IF_ERROR(writer_.status());
    return memory_.read_pieces(pieces);
  }
  absl::StatusOr<std::span<const std::byte>> view(std::uint64_t address,
                                                  std::size_t bytes) const override {
    RETURN_IF_ERROR(writer_.status());
    return memory_.view(address, bytes);
  }

 private:
  const CopyMemory& memory_;
  const HeapFileWriter& writer_;
};

absl::StatusOr<std::uint64_t> major_collections(const MemoryReader& memory, const Target& target) {
  std::uint64_t count = 0;
  if (target.abi.domains) {
    RETURN_IF_ERROR(memory.read_value(target.gc_counters.major_cycles, count));
    return count;
  }
  ASSIGN_OR_RETURN(const GcStats stats,
                   read_gc_stats(memory, target.caml_state_address, target.abi));
  return stats.major_collections;
}

}  // namespace

HeapWriting::HeapWriting(const HeapSource& source, const HeapProgram& program, const HeapCopy& copy,
                         HeapContents contents, HeapFileWriter::Sink sink)
    : source_(source),
      target_(source.lease->target),
      program_(program),
      copy_(copy),
      contents_(contents),
      fibers_(copy.memory(), target_.frames),
      frame_locations_(*source.symbolizer),
      writer_(std::move(sink), word_names()) {}

absl::Status HeapWriting::run() {
  RETURN_IF_ERROR(find_samples());
  ASSIGN_OR_RETURN(map_, map_heap(copy_.memory(), program_.layout, copy_.states()));
  writer_.begin(info(), map_);
  writer_.add_interfaces(program_.interfaces);
  writer_.know(read_ephemerons(copy_.memory(), program_.layout, copy_.states()));
  RETURN_IF_ERROR(keep_contents());
  add_samples();
  add_roots();
  add_assertions();
  const WantedMemory memory(copy_.memory(), writer_);
  const std::unique_ptr<NativeMemory> native_memory = find_native_memory(memory);
  const bool has_contents = contents_ != HeapContents::kNone;
  BufferFinder buffers(memory, target_.abi.domains);
  const auto visit = [&](const HeapRegion& region, const BlockPart& part) {
    census_(region, part);
    writer_(region, part);
    if (native_memory != nullptr) (*native_memory)(part);
    if (!has_contents) return;
    if (const auto used = buffers.used(part)) writer_.add_buffer(*used);
  };
  RETURN_IF_ERROR(walk_heap(memory, map_, visit, has_contents ? kWholeContents : kWhole));
  RETURN_IF_ERROR(census_.check(map_));
  if (native_memory != nullptr) {
    native_memory->report(
        [this](std::uint64_t block, const ChunkBytes& held) { writer_.add_outside(block, held); });
  }
  if (fibers_.cut()) {
    return absl::ResourceExhaustedError(
        fmt::format("pid {} has more than {} fibers, or more than {} words on their stacks",
                    target_.pid, FiberWalk::kMaxFibers, FiberWalk::kMaxWords));
  }
  return writer_.end(census_);
}

// This data is optional: it is missing, for example, if the program's malloc is not glibc's.
std::unique_ptr<NativeMemory> HeapWriting::find_native_memory(const MemoryReader& memory) {
  auto found = NativeMemory::search(
      copy_.pid(), memory, map_, target_, *program_.file,
      {.identifier = [this](std::uint64_t operations) -> const std::string& {
         return identifier(operations);
       },
       .is_ephemeron = [this](std::uint64_t block) { return writer_.is_ephemeron(block); },
       .in_heap = [this](std::uint64_t value) { return writer_.in_heap(value); }});
  return found.ok() ? *std::move(found) : nullptr;
}

const std::string& HeapWriting::identifier(std::uint64_t operations) {
  const auto [at, is_new] = identifiers_.try_emplace(operations);
  if (is_new) at->second = read_custom_identifier(copy_.memory(), operations).text;
  return at->second;
}

absl::Status HeapWriting::keep_contents() {
  if (contents_ == HeapContents::kNone) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Fingerprint::Key key, random_key());
  writer_.keep(ContentsWriter(contents_, key));
  return absl::OkStatus();
}

ImageInfo HeapWriting::info() const {
  return {.program = target_.exe,
          .pid = static_cast<std::uint32_t>(target_.pid),
          .ocaml_version = target_.abi.version,
          .unix_ns = static_cast<std::int64_t>(realtime_ns()),
          .pause_ns = copy_.pause_ns(),
          .sampling_rate = source_.sampling_rate,
          .heap_words = map_.sums.heap_words,
          .longest_wait_ns = longest_wait_ns()};
}

void HeapWriting::add_roots() {
  RootNames names(target_, *program_.file, copy_, program_.modules, *source_.symbolizer);
  names.for_each(
      [this](std::uint64_t value, const RootName& name) { writer_.add_root(value, name); });
}

// Only values in the heap can be checked.
void HeapWriting::add_assertions() {
  FoundAssertions found = read_assertions(copy_.memory(), target_.registry, copy_.made_at_ns());
  for (FoundMark& mark : found.marks) {
    if (!writer_.in_heap(mark.value)) ++found.assertions[mark.assertion].unchecked;
    if (mark.until == AssertionMark::Until::kOther && !writer_.in_heap(mark.other)) {
      mark.until = AssertionMark::Until::kForever;
    }
  }
  for (HeapAssertion& assertion : found.assertions) {
    const bool is_sampled =
        sites_.sampled_since_ns != 0 &&
        assertion.begin_age_ns <=
            copy_.made_at_ns() - std::min(copy_.made_at_ns(), sites_.sampled_since_ns);
    if (assertion.kind == AssertionKind::kRegion && !is_sampled) assertion.is_whole = false;
    writer_.add_assertion(assertion);
  }
  for (const FoundMark& mark : found.marks) {
    if (!writer_.in_heap(mark.value)) continue;
    writer_.add_mark(mark.assertion, mark.value, mark.until, mark.other);
  }
}

// Runs first, because followed blocks continue to live and die.
absl::Status HeapWriting::find_samples() {
  std::vector<memprof_root> roots;
  for (const RootSection& section : copy_.sections()) {
    if (section.kind != MEMPROF_ROOT_MEMPROF) continue;
    roots.insert(roots.end(), section.roots.begin(), section.roots.end());
  }
  ASSIGN_OR_RETURN(sampled_, read_memprof_entries(copy_.memory(), target_.abi, std::move(roots)));
  std::vector<SampleId> numbers;
  for (const MemprofEntry& entry : sampled_) numbers.emplace_back(entry.sample_id);
  sites_ = source_.sites(std::move(numbers));
  return absl::OkStatus();
}

// A block that survived the last finished collection was reachable when that collection began to
// mark, or was allocated later. Marking began when the previous collection had ended; collections
// are counted at their ends.
std::uint64_t HeapWriting::longest_wait_ns() const {
  const auto ended = major_collections(copy_.memory(), target_);
  if (!ended.ok() || *ended < 2) return 0;
  const auto before_it = sites_.majors.last_with_at_most(*ended - 2);
  return before_it && *before_it < copy_.made_at_ns() ? copy_.made_at_ns() - *before_it : 0;
}

void HeapWriting::add_samples() {
  std::vector<std::uint32_t> written;
  for (const auto& stack : sites_.callstacks)
    written.push_back(writer_.add_site(callstack(*stack)));
  const std::uint32_t unknown = writer_.add_site({});
  for (std::size_t i = 0; i < sampled_.size(); ++i) {
    const bool is_known = i < sites_.of.size();
    const std::uint32_t site = is_known ? sites_.of[i] : SampleSites::kUnknown;
    const std::uint64_t allocated_ns = is_known ? sites_.allocated_ns[i] : 0;
    writer_.add_sample(sampled_[i].block, sampled_[i].sample_id, sampled_[i].samples,
                       site < written.size() ? written[site] : unknown,
                       allocated_ns == 0
                           ? SampledBlock::kNoAge
                           : copy_.made_at_ns() - std::min(allocated_ns, copy_.made_at_ns()));
  }
}

// Lists each run of recursion once.
std::vector<Location> HeapWriting::callstack(const Callstack& callstack) const {
  std::vector<Location> places;
  std::vector<Symbolizer::FrameRun> scratch;
  Symbolizer& symbolizer = *source_.symbolizer;
  for (const Symbolizer::FrameRun& run : symbolizer.frames(callstack, scratch)) {
    for (const LocationId place : symbolizer.locations(run.frame)) {
      places.push_back(symbolizer.location(place));
    }
  }
  return places;
}

// A closure begins with its code, a custom block with its operations, and the operations with their
// name.
WordNames HeapWriting::word_names() {
  WordNames names;
  names.function = [this](std::uint64_t code) -> std::string {
    const std::uint64_t address = code - target_.load_bias;
    const auto function = program_.file->function_at(address);
    return function && function->address == address ? demangle(function->name) : "";
  };
  names.custom = [this](std::uint64_t operations) { return identifier(operations); };
  names.outside = [this](std::span<const std::uint64_t> fields) {
    return outside_bytes(identifier(fields[0]), fields);
  };
  if (target_.abi.domains) {
    names.fiber = [this](std::uint64_t word) { return fiber(word); };
  }
  return names;
}

// A continuation begins with its fiber as an integer; one that has been continued has none.
std::optional<FiberStack> HeapWriting::fiber(std::uint64_t word) {
  if (word % 2 == 0 || word == 1) return std::nullopt;
  FiberStack stack;
  fibers_.walk({.fiber = word - 1},
               [&](std::uint64_t code, std::span<const FiberWalk::Slot> slots) {
                 const auto frame = static_cast<std::uint32_t>(stack.frames.size());
                 for (const auto& slot : slots) stack.held.push_back({frame, slot.value});
                 stack.frames.push_back(frame_locations_.of(code));
                 return frame < kMaxFiberFrames;
               });
  return stack;
}

void HeapWriting::describe(HeapSummary& summary) const {
  summary.heap_words = map_.sums.heap_words;
  summary.blocks = census_.major(BlockState::kUsed).blocks + census_.minor().blocks;
  summary.file_bytes = writer_.bytes();
}

}  // namespace memprofd
