// SPDX-License-Identifier: Apache-2.0
// A copy of a target, written into a heap file: names of its roots, its sampled blocks, its blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/attach/inject/heap_copy.h"
#include "daemon/snapshot/file/heap_file_writer.h"
#include "daemon/snapshot/heap_census.h"
#include "daemon/snapshot/heap_layout.h"
#include "daemon/snapshot/heap_map.h"
#include "daemon/snapshot/taking/heap_taker.h"

namespace memprofd {

class HeapWriting {
 public:
  // All outlive it.
  HeapWriting(const HeapSource& source, const HeapLayout& layout, const HeapCopy& copy,
              HeapFileWriter::Sink sink);

  // kDataLoss when the heap is not laid out as its version has it: what was written is to be
  // thrown away then. Ends soon after an error of the sink, which is its answer.
  absl::Status run();
  // After run().
  void describe(HeapSummary& summary) const;

 private:
  ImageInfo info() const;
  void add_roots();

  const HeapSource& source_;
  const Target& target_;
  const HeapLayout& layout_;
  const HeapCopy& copy_;
  HeapFileWriter writer_;
  HeapMap map_;
  HeapCensus census_;
};

}  // namespace memprofd
