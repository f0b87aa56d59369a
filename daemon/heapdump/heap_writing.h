// SPDX-License-Identifier: Apache-2.0
// A copy of a target, written into a heap file: names of its roots, its sampled blocks, its blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/attach/inject/heap_copy.h"
#include "daemon/heapdump/fiber_walk.h"
#include "daemon/heapdump/frame_locations.h"
#include "daemon/heapdump/heap_taker.h"
#include "daemon/heapdump/memprof_entries.h"
#include "daemon/heapdump/native_memory.h"
#include "daemon/snapshot/file/heap_file_writer.h"
#include "daemon/snapshot/heap_census.h"
#include "daemon/snapshot/heap_layout.h"
#include "daemon/snapshot/heap_map.h"
#include "daemon/snapshot/module_blocks.h"

namespace memprofd {

// Facts from the program's file.
struct HeapProgram {
  std::unique_ptr<ElfFile> file;
  HeapLayout layout;
  ModuleTables modules;
  InterfaceDigests interfaces;
};

class HeapWriting {
 public:
  // All outlive it.
  HeapWriting(const HeapSource& source, const HeapProgram& program, const HeapCopy& copy,
              HeapContents contents, HeapFileWriter::Sink sink);

  // kDataLoss if the heap does not have the layout of its version: then the written data must be
  // discarded. Returns soon after an error of the sink, with that error.
  absl::Status run();
  // After run().
  void describe(HeapSummary& summary) const;

 private:
  absl::Status find_samples();
  absl::Status keep_contents();
  ImageInfo info() const;
  std::uint64_t longest_wait_ns() const;
  void add_roots();
  void add_samples();
  void add_assertions();
  std::vector<Location> callstack(const Callstack& callstack) const;
  WordNames word_names();
  std::unique_ptr<NativeMemory> find_native_memory(
      const MemoryReader& memory);  // null: it is not known
  const std::string& identifier(std::uint64_t operations);
  std::optional<FiberStack> fiber(std::uint64_t word);

  const HeapSource& source_;
  const Target& target_;
  const HeapProgram& program_;
  const HeapCopy& copy_;
  const HeapContents contents_;
  absl::flat_hash_map<std::uint64_t, std::string> identifiers_;  // of custom blocks
  FiberWalk fibers_;
  FrameLocations frame_locations_;
  std::vector<MemprofEntry> sampled_;
  SampleSites sites_;  // of sampled_
  HeapFileWriter writer_;
  HeapMap map_;
  HeapCensus census_;
};

}  // namespace memprofd
