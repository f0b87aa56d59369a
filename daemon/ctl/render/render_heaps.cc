// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_heaps.h"

#include <fmt/core.h>

#include <string_view>

#include "daemon/ctl/render/text.h"
#include "daemon/ctl/render/text_table.h"
#include "daemon/util/base_name.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
std::string kept_heaps_text(const pb::ListHeapsResponse& heaps) {
  if (heaps.directory().empty()) {
    return "this memprofd stores no snapshots; start it with --snapshot.directory DIR\n";
  }
  const std::string directory = printable(heaps.directory());
  if (heaps.heaps().empty()) return fmt::format("no snapshots are stored in {}\n", directory);
  TextTable table({{"TIME"},
                   {"PROGRAM"},
                   {"PID", Align::kRight},
                   {"HEAP", Align::kRight},
                   {"FILE SIZE", Align::kRight},
                   {"STOOD STILL", Align::kRight},
                   {"NAME"}});
  for (const pb::KeptHeap& heap : heaps.heaps()) {
    table.add_row({utc_text(heap.unix_ns()), printable(base_name(heap.program())),
                   fmt::format("{}", heap.pid()), bytes_text(heap.heap_bytes()),
                   bytes_text(heap.file_bytes()), format_duration(heap.pause_seconds()),
                   printable(heap.name())});
  }
  std::string text;
  for (const std::string& line : table.lines()) text += line + "\n";
  return text + fmt::format("They are in {}.\n", directory);
}

std::string kept_heap_text(const pb::KeptHeap& heap) {
  return fmt::format("{}: {}, of a heap of {}; the program was paused for {}\n",
                     printable(heap.name()), bytes_text(heap.file_bytes()),
                     bytes_text(heap.heap_bytes()), format_duration(heap.pause_seconds()));
}

}  // namespace memprofd::ctl
