// SPDX-License-Identifier: Apache-2.0
// Turns the events of one target into a trace: one file, or several in a row.
//
//   daemon's event          in the file
//   alloc of block 812      alloc, gets id 0         812 -> 0
//   promote of block 812    promote 0
//   dealloc of block 700    nothing: it was allocated before the file began, and
//                           counts as unfollowed
//   dealloc of block 812    collect 0                812 is forgotten
//
// Each file is a trace of its own. A file that begins because the previous one is full, or because
// the sampling rate has changed, contains none of the earlier blocks.
//
// The format distinguishes the minor heap, the major heap and external memory. A block counts for
// the heap in which it was allocated, even if it was unmarshalled. The memory that a custom block
// represents (Source::kCustom) is external (ctf::Source::kExternal), and is not promoted:
// Memtrace's tools reject a file in which it is. Nor do they expect an allocation without a
// callstack, so that has the one frame kUnknownCode.
//
// A file has one rate, and the native heap has another rate than OCaml's heap, so it has a
// recording of its own, also as external memory. Readers of the format compute n / rate words from
// a block's samples. For a large native block this is correct if it has as many samples as it
// represents, which the agent does not count:
//
//   a block of 40 KB at 8 KiB a sample     the agent: it was sampled
//                                          in the file: 4.92 samples, 5 or (one in 12) 4
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/aggregate/aggregator.h"
#include "daemon/history/event_log.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/trace/ctf/ctf_writer.h"
#include "daemon/util/clock.h"

namespace memprofd {

// Destination of a recording's files.
class TraceOutput {
 public:
  virtual ~TraceOutput() = default;
  // Starts the next file; the previous one, if any, is complete.
  virtual absl::Status begin_file() = 0;
  virtual absl::Status write(std::span<const std::byte> packet) = 0;
};

// Marks traces of the native heap.
inline constexpr char kNativeHeapContext[] = "memprofd, C's memory";

struct RecordingOptions {
  // Below this a file would contain little but its description.
  static constexpr std::uint64_t kMinFileBytes = 256 << 10;

  int version = ctf::kVersionOneDomain;
  bool of_c = false;  // only the native heap; otherwise everything else
  // A file ends a little earlier, because the writer may hold back 64 KiB, and 32 KiB more for each
  // further domain. 0: no limit.
  std::uint64_t max_bytes = 0;
  // True to start another file when one is full or its sampling rate has changed.
  bool rotate = false;
  // Blocks followed at a time, of 16 bytes each; for others the file contains only the allocation.
  std::size_t max_blocks = AggregatorLimits().live_samples;
};

// Counts over all files of a recording.
struct RecordingStats {
  std::uint64_t bytes = 0;
  std::uint64_t events = 0;             // allocations, promotions and collections
  std::uint64_t samples = 0;            // allocations
  std::uint64_t dropped_events = 0;     // pushed out of the log before they were read
  std::uint64_t unfollowed_events = 0;  // events of blocks that are not in the file
  std::uint64_t lost_records = 0;       // did not arrive
};

// Not thread-safe.
class TraceRecording {
 public:
  // info: common facts of all files; the rate and the start are set for each. output must outlive
  // the recording.
  TraceRecording(TraceOutput& output, std::shared_ptr<Symbolizer> symbolizer, ctf::TraceInfo info,
                 RecordingOptions options);

  // These three functions return false if the recording has ended.
  bool put(const EventRead& read);
  // Afterwards the output has a complete file with everything so far, even if there were no events.
  bool flush();
  // Flushes. why: one line; the reason of an earlier end is kept. until_ns: CLOCK_MONOTONIC; the
  // trace lasts until then, also if the last event was earlier.
  bool end(const std::string& why, std::uint64_t until_ns = 0);

  const RecordingStats& stats() const { return stats_; }
  // Reason of the end; empty while recording.
  const std::string& ended() const { return ended_; }

 private:
  struct Block {
    std::uint64_t id : 48;  // in the file
    std::uint64_t domain : 15;
    std::uint64_t external : 1;
  };
  static_assert(sizeof(Block) == 8);

  bool put(const EventChunk& chunk, const SampleEvent& event);
  absl::Status put_alloc(const SampleEvent& event, const EventClass& alloc_class);
  std::uint64_t samples_of(const SampleEvent& event);
  absl::Status put_fate(const SampleEvent& event, bool promoted);
  // Opens the file for an event of that rate and time: the current one or the next.
  bool open_file_for(double rate, std::uint64_t time_ns);
  bool begin_file(double rate, std::uint64_t start_ns);
  bool is_full() const;
  bool fail(const absl::Status& status);
  // Lets the current file last until that time.
  bool extend_file(std::uint64_t until_ns);
  void close_file();
  std::uint64_t unix_us(std::uint64_t monotonic_ns) const;

  TraceOutput& output_;
  const std::shared_ptr<Symbolizer> symbolizer_;
  ctf::TraceInfo info_;  // of the current or next file
  const RecordingOptions options_;
  const std::uint64_t unix_offset_ns_;  // added to CLOCK_MONOTONIC
  const std::uint64_t began_ns_ = monotonic_ns();

  std::unique_ptr<ctf::Writer> writer_;          // of the current file; null: not begun yet
  absl::flat_hash_map<SampleId, Block> blocks_;  // alive, allocated in the current file
  std::set<std::uint16_t> domains_;              // in the current file
  std::vector<std::uint64_t> codes_;
  std::mt19937_64 dice_;  // rounds fractional samples

  RecordingStats stats_;
  std::uint64_t bytes_before_ = 0;  // in the files before the current one
  std::string ended_;
};

}  // namespace memprofd
