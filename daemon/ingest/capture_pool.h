// SPDX-License-Identifier: Apache-2.0
// Queues of captures that share one bounded pool of nodes. Once the pool has grown to the required
// size, it allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/util/ids.h"

namespace memprofd {

// A callstack captured when a sample was taken, in the form that pairing uses.
struct Capture {
  std::uint64_t time_ns = 0;
  CallstackId callstack;
  bool direct = false;    // its callback follows immediately (alloc_idx >= 0)
  bool interned = false;  // belongs to several blocks of one unmarshalling
};

// First in, first out. Belongs to the pool that fills it. A copy would share its nodes, so lists
// only move with their owner.
struct CaptureList {
  std::uint32_t first = 0;  // node numbers; valid while size > 0
  std::uint32_t last = 0;
  std::uint32_t size = 0;
};

class CapturePool {
 public:
  explicit CapturePool(std::size_t max_captures) : max_captures_(max_captures) {}

  // Returns false if the pool is full.
  bool push(CaptureList& list, const Capture& capture);
  // Requires that the list is not empty.
  const Capture& front(const CaptureList& list) const { return nodes_[list.first].capture; }
  const Capture& back(const CaptureList& list) const { return nodes_[list.last].capture; }
  Capture pop(CaptureList& list);
  // Moves the front of one list to the end of another.
  void move_front(CaptureList& from, CaptureList& to);
  // Empties the pool and frees its memory. All lists are invalid afterwards.
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
