// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/heap_window.h"

#include <algorithm>

#include "daemon/snapshot/block_header.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

HeapWindow::HeapWindow(const MemoryReader& memory)
    : memory_(memory), viewer_(dynamic_cast<const MemoryViewer*>(&memory)) {}

absl::StatusOr<std::span<const std::uint64_t>> HeapWindow::at(std::uint64_t address,
                                                              std::size_t least,
                                                              std::uint64_t end) {
  const std::uint64_t skipped = (address - begin_) / kWordBytes;
  if (address >= begin_ && skipped < words_.size() && words_.size() - skipped >= least) {
    return words_.subspan(skipped);
  }
  const std::uint64_t wanted = std::min<std::uint64_t>((end - address) / kWordBytes, kWords);
  RETURN_IF_ERROR(viewer_ != nullptr ? map_view(address, wanted) : fill(address, wanted));
  begin_ = address;
  return words_;
}

// Reads data in the window again; it is rarely more than a divided block.
absl::Status HeapWindow::map_view(std::uint64_t address, std::uint64_t wanted) {
  words_ = {};
  const auto bytes = viewer_->view(address, wanted * kWordBytes);
  if (absl::IsUnimplemented(bytes.status())) return fill(address, wanted);
  RETURN_IF_ERROR(bytes.status());
  words_ = {reinterpret_cast<const std::uint64_t*>(bytes->data()), wanted};
  return absl::OkStatus();
}

absl::Status HeapWindow::fill(std::uint64_t address, std::uint64_t wanted) {
  words_ = {};
  own_.resize(kWords);
  const auto room = std::span(own_).first(wanted);
  RETURN_IF_ERROR(memory_.read(address, std::as_writable_bytes(room)));
  words_ = room;
  return absl::OkStatus();
}

}  // namespace memprofd
