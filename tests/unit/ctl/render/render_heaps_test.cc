// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_heaps.h"

#include <gtest/gtest.h>

#include <string>

namespace memprofd::ctl {
namespace {

::memprof::v1::KeptHeap a_kept_heap() {
  ::memprof::v1::KeptHeap heap;
  heap.set_name("auto-shop-42-t.heap");
  heap.set_program("/srv/shop\x1b.exe");
  heap.set_pid(42);
  heap.set_unix_ns(1'767'225'600'000'000'000);
  heap.set_pause_seconds(0.0014);
  heap.set_heap_bytes(11 << 20);
  heap.set_file_bytes(76 << 10);
  return heap;
}

TEST(KeptHeapsText, IsATable) {
  ::memprof::v1::ListHeapsResponse heaps;
  heaps.set_directory("/var/heaps");
  *heaps.add_heaps() = a_kept_heap();
  EXPECT_EQ(
      "TIME                     PROGRAM    PID      HEAP  FILE SIZE  STOOD STILL  NAME\n"
      "2026-01-01 00:00:00 UTC  shop?.exe   42  11.0 MiB   76.0 KiB       1.4 ms  "
      "auto-shop-42-t.heap\n"
      "They are in /var/heaps.\n",
      kept_heaps_text(heaps));
}

TEST(KeptHeapsText, SaysWhyThereAreNone) {
  ::memprof::v1::ListHeapsResponse heaps;
  EXPECT_NE(std::string::npos, kept_heaps_text(heaps).find("--snapshot.directory DIR"));
  heaps.set_directory("/var/heaps");
  EXPECT_EQ("no snapshots are stored in /var/heaps\n", kept_heaps_text(heaps));
}

TEST(KeptHeapsText, OneIsALine) {
  EXPECT_EQ(
      "auto-shop-42-t.heap: 76.0 KiB, of a heap of 11.0 MiB; the program was paused for 1.4 ms\n",
      kept_heap_text(a_kept_heap()));
}

}  // namespace
}  // namespace memprofd::ctl
