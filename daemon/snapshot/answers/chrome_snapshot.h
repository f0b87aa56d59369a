// SPDX-License-Identifier: Apache-2.0
// Writes a heap in the form of Chrome's heap snapshots (.heapsnapshot), which its DevTools open:
// Memory, then "Load profile". The file contains reachable blocks, below a tree of roots: all
// roots, kinds, modules and threads, fields and frames. Edges have the numbers of fields, blocks
// have their class ("block(4)", "closure Server.handle"); sizes include the header.
//
//   {"snapshot":{"meta":{..},"node_count":N,"edge_count":M,..},
//    "nodes":[type,name,id,self_size,edge_count,trace_node_id,detachedness, ..],
//    "edges":[type,name_or_index,to_node, ..], .., "strings":["", ..]}
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

struct ChromeSnapshotSize {
  std::uint64_t blocks = 0;    // number of blocks in the file
  std::uint64_t left_out = 0;  // unreachable blocks: DevTools require a path to each block
};

// DevTools store the numbers of a file, and the size of a block, in 32 bits.
inline constexpr std::uint64_t kMaxChromeNumbers = 0xFFFFFFFF;

// Writes pieces of about 64 KiB and returns the errors of write. kResourceExhausted: the heap has
// more blocks, pointers or bytes in one block than the format can express.
absl::StatusOr<ChromeSnapshotSize> write_chrome_snapshot(
    const HeapImage& image, const std::function<absl::Status(std::string_view)>& write);

}  // namespace memprofd
