// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/event_ring.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Returned by consume's callback to stop libbpf's loop.
constexpr int kStop = -ECANCELED;

std::uint64_t load_position(const MappedPages& page) {
  auto* position = static_cast<std::uint64_t*>(page.data());
  return std::atomic_ref(*position).load(std::memory_order_acquire);
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventRing>> EventRing::open(int map_fd, std::uint64_t total_bytes) {
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::unique_ptr<EventRing> ring(new EventRing);
  ring->total_bytes_ = total_bytes;
  ASSIGN_OR_RETURN(ring->consumer_page_,
                   MappedPages::map(map_fd, page, PROT_READ, 0, "the ring buffer"));
  ASSIGN_OR_RETURN(ring->producer_page_,
                   MappedPages::map(map_fd, page, PROT_READ, page, "the ring buffer"));
  ring->ring_.reset(ring_buffer__new(map_fd, &EventRing::on_record, ring.get(), nullptr));
  if (ring->ring_ == nullptr) return bpf_load_error(errno);
  return ring;
}

int EventRing::on_record(void* self, void* data, std::size_t bytes) {
  auto& ring = *static_cast<EventRing*>(self);
  (*ring.fn_)({static_cast<const std::byte*>(data), bytes});
  ++ring.consumed_;
  // libbpf moves the position, over the padding to 8 bytes too, after this call.
  const std::uint64_t begin = load_position(ring.consumer_page_);
  return begin + BPF_RINGBUF_HDR_SZ + bytes + 7 < ring.end_ ? 0 : kStop;
}

int EventRing::consume(const std::function<void(std::span<const std::byte>)>& fn,
                       std::uint64_t end) {
  const std::uint64_t begin = load_position(consumer_page_);
  if (begin >= end) return 0;
  fn_ = &fn;
  consumed_ = 0;
  end_ = std::min(end, begin + kConsumeBytes);
  (void)ring_buffer__consume(ring_.get());
  fn_ = nullptr;
  return consumed_;
}

std::uint64_t EventRing::written() const { return load_position(producer_page_); }

std::uint64_t EventRing::read() const { return load_position(consumer_page_); }

std::uint64_t EventRing::used_bytes() const {
  const std::uint64_t consumed = read();  // read first, so that it never overtakes the producer
  return written() - consumed;
}

}  // namespace memprofd
