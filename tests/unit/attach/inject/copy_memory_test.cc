// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "daemon/attach/inject/heap_copy.h"
#include "daemon/discover/proc_fs.h"
#include "tests/kit/ocaml_program.h"

namespace memprofd {
namespace {

// The child has its own memory only after its exec.
class Sleep : public Child {
 public:
  Sleep() : Child({"sleep", "1000"}) {
    const std::string ours = ProcFs().exe(::getpid()).value();
    while (ProcFs().exe(pid()).value() == ours) ::usleep(1000);
    while (!has_heap()) ::usleep(1000);
  }
  bool has_heap() const {
    const auto maps = ProcFs().maps(pid()).value();
    return std::ranges::find(maps, "[heap]", &Mapping::path) != maps.end();
  }
};

// With or without a mapped file, each way reads the same.
TEST(CopyMemory, IsReadAndViewed) {
  const Sleep child;
  const auto memory = CopyMemory::open(child.pid()).value();
  const auto maps = ProcFs().maps(child.pid()).value();
  int with_files = 0, without = 0;
  for (const Mapping& mapping : maps) {
    if (!mapping.readable || mapping.path.starts_with("[v")) continue;
    std::array<std::byte, 4096> read = {};
    const absl::Status status = memory->read(mapping.begin, read);
    ASSERT_TRUE(status.ok()) << mapping.path << " " << status;
    const auto view = memory->view(mapping.begin, read.size());
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_TRUE(std::ranges::equal(*view, read)) << mapping.path;
    std::array<std::byte, 4096> piece = {};
    const MemoryPiece pieces[] = {{mapping.begin, piece}};
    EXPECT_EQ(memory->read_pieces(pieces).value(), 1u);
    EXPECT_EQ(piece, read) << mapping.path;
    ++(mapping.inode != 0 ? with_files : without);
  }
  EXPECT_GT(with_files, 0);
  EXPECT_GT(without, 0);
}

TEST(CopyMemory, ThatWasKilledSaysSo) {
  Sleep child;
  const auto memory = CopyMemory::open(child.pid()).value();
  const auto maps = ProcFs().maps(child.pid()).value();
  const auto heap = std::ranges::find(maps, "[heap]", &Mapping::path);
  ASSERT_NE(heap, maps.end());
  child.make_zombie();
  std::uint64_t value = 0;
  const MemoryPiece piece{heap->begin,
                          std::as_writable_bytes(std::span<std::uint64_t, 1>(&value, 1))};
  EXPECT_TRUE(absl::IsAborted(memory->read_value(heap->begin, value)));
  EXPECT_TRUE(absl::IsAborted(memory->view(heap->begin, 8).status()));
  EXPECT_TRUE(absl::IsAborted(memory->read_pieces(std::span(&piece, 1)).status()));
  child.finish();
}

}  // namespace
}  // namespace memprofd
