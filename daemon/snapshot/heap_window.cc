// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/heap_window.h"

#include <algorithm>

#include "daemon/snapshot/block_header.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

absl::StatusOr<std::span<const std::uint64_t>> HeapWindow::at(std::uint64_t address,
                                                              std::size_t least,
                                                              std::uint64_t end) {
  const std::uint64_t skipped = (address - begin_) / kWordBytes;
  const std::size_t kept = address >= begin_ && skipped < filled_ ? filled_ - skipped : 0;
  if (kept >= least && kept != 0) return std::span(words_).subspan(skipped, kept);
  if (kept != 0)
    std::copy_n(words_.begin() + static_cast<std::ptrdiff_t>(skipped), kept, words_.begin());
  begin_ = address;
  filled_ = kept;
  const std::uint64_t wanted = std::min<std::uint64_t>((end - address) / kWordBytes, kWords);
  const auto room = std::span(words_).subspan(kept, wanted - kept);
  RETURN_IF_ERROR(memory_.read(address + kept * kWordBytes, std::as_writable_bytes(room)));
  filled_ = wanted;
  return std::span<const std::uint64_t>(words_).first(filled_);
}

}  // namespace memprofd
