// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/inner_heap.h"

#include <sys/mman.h>

#include <mutex>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/util/fd.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

absl::StatusOr<HeapImage> take(ControlService& control,
                               const ::memprof::v1::TakeSnapshotRequest& request,
                               const std::function<bool()>& waits) {
  const UniqueFd file(::memfd_create("memprofd-heap", MFD_CLOEXEC));
  if (!file) return absl::ResourceExhaustedError("no memory for the snapshot's file");
  const HeapClient client{
      .take = [&](std::string_view bytes) { return write_all(file.get(), bytes) == 0; },
      .waits = waits};
  ASSIGN_OR_RETURN(const ::memprof::v1::SnapshotSummary summary,
                   control.take_snapshot(request, client));
  if (summary.blocks() > kMostInnerBlocks) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the heap of pid ", request.pid(), " has ", format_count(summary.blocks()),
        " blocks, more than memprofd looks at within itself; ask memprofctl, by snapshot take and "
        "snapshot show, or why --pid ",
        request.pid()));
  }
  return read_heap_image(absl::StrCat("/proc/self/fd/", file.get()));
}

}  // namespace

absl::Status look_at_heap(ControlService& control,
                          const ::memprof::v1::TakeSnapshotRequest& request,
                          const std::function<bool()>& waits,
                          const std::function<absl::Status(HeapImage& image)>& look) {
  static std::mutex one_at_a_time;
  const std::unique_lock alone(one_at_a_time, std::try_to_lock);
  if (!alone.owns_lock()) {
    return absl::ResourceExhaustedError(
        "another snapshot is being looked at, and memprofd has memory for one; ask again later");
  }
  ASSIGN_OR_RETURN(HeapImage image, take(control, request, waits));
  return look(image);
}

}  // namespace memprofd
