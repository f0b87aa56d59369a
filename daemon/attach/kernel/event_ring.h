// SPDX-License-Identifier: Apache-2.0
// The ring buffer into which the BPF programs of one target write events.
//
// The ingest thread owns it and makes every call. It stays readable after the programs are gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "daemon/attach/kernel/bpf_support.h"
#include "daemon/attach/kernel/mapped_pages.h"

namespace memprofd {

class EventRing {
 public:
  // map_fd: of a BPF_MAP_TYPE_RINGBUF with room for total_bytes; it may be closed later, as the
  // mappings hold the ring. kResourceExhausted, kPermissionDenied.
  static absl::StatusOr<std::unique_ptr<EventRing>> open(int map_fd, std::uint64_t total_bytes);
  EventRing(const EventRing&) = delete;
  EventRing& operator=(const EventRing&) = delete;

  // Calls fn for records available now, in order; the span is valid during the call. Returns the
  // number of records. However fast new records arrive, it ends with the one that reaches
  // kConsumeBytes, which bounds the samples (8 bytes each at least), or the position `end`.
  static constexpr std::uint64_t kConsumeBytes = 1u << 20;
  int consume(const std::function<void(std::span<const std::byte>)>& fn,
              std::uint64_t end = std::numeric_limits<std::uint64_t>::max());
  // Position at which the next record will be written; everything written before this call is
  // before it.
  std::uint64_t written() const;
  // Position of the next record to read.
  std::uint64_t read() const;
  // Readable when the ring is a quarter full; before that, poll every few ms.
  int epoll_fd() const { return ring_buffer__epoll_fd(ring_.get()); }

  std::uint64_t used_bytes() const;
  std::uint64_t total_bytes() const { return total_bytes_; }

 private:
  EventRing() = default;
  static int on_record(void* self, void* data, std::size_t bytes);

  std::uint64_t total_bytes_ = 0;
  MappedPages consumer_page_;  // the two positions, for the fill
  MappedPages producer_page_;
  RingBuffer ring_;

  // Only while consume runs.
  const std::function<void(std::span<const std::byte>)>* fn_ = nullptr;
  int consumed_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace memprofd
