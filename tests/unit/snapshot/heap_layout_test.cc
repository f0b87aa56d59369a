// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/heap_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/discover/elf_file.h"
#include "daemon/discover/runtime_version.h"
#include "tests/kit/ocaml_program.h"

namespace memprofd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> code(std::initializer_list<int> bytes) {
  std::vector<std::byte> out;
  for (const int byte : bytes) out.push_back(static_cast<std::byte>(byte));
  return out;
}

// caml_redarken_pool of 5.3.0, which compares with caml_global_heap_state only behind this.
TEST(HeapLayout, DataAddressesAreThoseThatCodeTakes) {
  const auto redarken = code({0xf3, 0x0f, 0x1e, 0xfa,                    // endbr64
                              0x41, 0x57,                                // push %r15
                              0x4c, 0x8d, 0xbf, 0x00, 0x80, 0x00, 0x00,  // lea 0x8000(%rdi), %r15
                              0x48, 0x8d, 0x15, 0xc3, 0x16, 0x01, 0x00,  // lea 0x116c3(%rip), %rdx
                              0x8b, 0x47, 0x18,                          // mov 0x18(%rdi), %eax
                              0x4c, 0x8d, 0x05, 0xf0, 0xff, 0xff, 0xff,  // lea -16(%rip), %r8
                              0x48, 0x8d, 0x15});                        // cut
  EXPECT_THAT(decode_data_addresses(redarken, 0x1000),
              ElementsAre(0x1000 + 20 + 0x116c3, 0x1000 + 30 - 16));
  EXPECT_THAT(decode_data_addresses({}, 0x1000), ElementsAre());
}

TEST(HeapLayout, TheHeapSizeIsReadWhereTheSumsAre) {
  auto heap_size = code({0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x87, 0x20, 0x04, 0x00, 0x00, 0x48,
                         0x03, 0x87, 0x48, 0x04, 0x00, 0x00, 0x48, 0xc1, 0xe0, 0x03, 0xc3});
  EXPECT_TRUE(heap_size_agrees(heap_size));
  for (std::size_t i : {7, 14}) {
    auto other = heap_size;
    other[i] ^= std::byte{8};
    EXPECT_FALSE(heap_size_agrees(other)) << i;
  }
  for (std::size_t bytes = 0; bytes < 18; ++bytes) {
    EXPECT_FALSE(heap_size_agrees(std::span(heap_size).first(bytes))) << bytes;
  }
}

TEST(HeapLayout, IsFoundInAStrippedProgram) {
  const TempDir dir;
  const std::string path = compile_ocaml(dir, "small", "let () = print_endline \"x\"", "-ccopt -s");
  ASSERT_FALSE(path.empty());
  const auto program = ElfFile::open(path, "small");
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_FALSE((*program)->has_symtab());
  const RuntimeAbi abi = runtime_abi_for(detect_runtime_version(**program)).value();
  const auto layout = find_heap_layout(**program, 0x1000, abi);
  ASSERT_TRUE(layout.ok()) << layout.status();
  const auto& heap = std::get<ChunkHeap>(layout->heap);
  EXPECT_EQ((*program)->find_symbol("caml_heap_start")->address + 0x1000, heap.first_chunk);
  // A runtime that claims to be another one.
  const auto other = find_heap_layout(**program, 0, runtime_abi_for("5.3.0").value());
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("modified build: it has no caml_global_heap_state"));
}

}  // namespace
}  // namespace memprofd
