// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/capture_pool.h"

namespace memprofd {

bool CapturePool::push(CaptureList& list, const Capture& capture) {
  if (size_ >= max_captures_) return false;
  std::uint32_t node;
  if (free_.size > 0) {
    node = unlink_front(free_);
  } else {
    node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  nodes_[node].capture = capture;
  link_back(list, node);
  ++size_;
  return true;
}

Capture CapturePool::pop(CaptureList& list) {
  const std::uint32_t node = unlink_front(list);
  link_front(free_, node);  // reused next, while it is in the cache
  --size_;
  return nodes_[node].capture;
}

void CapturePool::move_front(CaptureList& from, CaptureList& to) {
  link_back(to, unlink_front(from));
}

void CapturePool::reset() {
  std::vector<Node>().swap(nodes_);
  free_ = {};
  size_ = 0;
}

std::uint32_t CapturePool::unlink_front(CaptureList& list) {
  const std::uint32_t node = list.first;
  list.first = nodes_[node].next;
  --list.size;
  return node;
}

void CapturePool::link_front(CaptureList& list, std::uint32_t node) {
  if (list.size == 0) list.last = node;
  nodes_[node].next = list.first;
  list.first = node;
  ++list.size;
}

void CapturePool::link_back(CaptureList& list, std::uint32_t node) {
  if (list.size == 0) {
    list.first = node;
  } else {
    nodes_[list.last].next = node;
  }
  list.last = node;
  ++list.size;
}

}  // namespace memprofd
