// SPDX-License-Identifier: Apache-2.0
// Queues of captures that share one bounded pool of nodes: no allocation once
// the pool has grown to what is needed, and one bound on all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/util/ids.h"

namespace memprofd {

// A callstack captured at a sampling instant, as pairing sees it.
struct Capture {
  std::uint64_t time_ns = 0;
  CallstackId callstack;
  bool direct = false;    // its callback comes at once (alloc_idx >= 0)
  bool interned = false;  // stands for several blocks of one unmarshalling
};

// First in, first out. Belongs to the pool that fills it; a copy would share
// its nodes, so lists move with their owner only.
struct CaptureList {
  std::uint32_t first = 0;  // node numbers; valid while size > 0
  std::uint32_t last = 0;
  std::uint32_t size = 0;
};

class CapturePool {
 public:
  explicit CapturePool(std::size_t max_captures) : max_captures_(max_captures) {}

  // False when the pool is full.
  bool push(CaptureList& list, const Capture& capture);
  // The list must not be empty.
  const Capture& front(const CaptureList& list) const { return nodes_[list.first].capture; }
  const Capture& back(const CaptureList& list) const { return nodes_[list.last].capture; }
  Capture pop(CaptureList& list);
  // Moves the front of one list to the end of another.
  void move_front(CaptureList& from, CaptureList& to);
  // Empties the pool and gives the memory back; every list is invalid afterwards.
  void reset();
  std::size_t size() const { return size_; }

 private:
  struct Node {
    Capture capture;
    std::uint32_t next = 0;
  };

  std::uint32_t unlink_front(CaptureList& list);
  void link_front(CaptureList& list, std::uint32_t node);
  void link_back(CaptureList& list, std::uint32_t node);

  std::size_t max_captures_;
  std::vector<Node> nodes_;
  CaptureList free_;
  std::size_t size_ = 0;
};

}  // namespace memprofd
