// SPDX-License-Identifier: Apache-2.0
// Takes arbitrary bytes for the memory of a program in which caml_frametable begins: reads the
// tables, makes the kernel's form of them, and checks both. The first byte says how much is mapped.
//
// tests/unit/discover/frame_table_fuzz_test.cc drives it in every build, make fuzz for as long as
// one likes.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "daemon/discover/frame_table.h"
#include "tests/kit/fake_memory.h"

namespace memprofd::frame_table_fuzz {

constexpr std::uint64_t kFuzzBase = 0x10000;

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "frame_table_fuzz: %s\n", what);
  std::abort();
}

inline void check(const FrameTable& table, const FakeMemory& memory) {
  const FrameDescriptor* before = nullptr;
  for (const FrameDescriptor& one : table.descriptors()) {
    require(before == nullptr || before->return_address < one.return_address, "not in order");
    require(one.address >= memory.base() && one.address < memory.end(), "from nowhere");
    require(table.find(one.return_address) == &one, "not found again");
    before = &one;
  }
  const auto budget = std::make_shared<ByteBudget>(1u << 20);
  const KernelFrameTable kernel = build_kernel_frame_table(table, 16, budget);
  require(kernel.slots.size() == std::size_t{1} << kernel.bits, "slots of another size");
  require(kernel.left_out <= table.descriptors().size(), "more left out than there are");
  require(budget->used() <= budget->limit(), "over its budget");
}

}  // namespace memprofd::frame_table_fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace memprofd;
  using namespace memprofd::frame_table_fuzz;
  if (size < 1) return 0;
  FakeMemory memory(kFuzzBase);
  for (std::size_t i = 1; i < size; ++i) memory.put(data[i]);
  const std::uint64_t mapped = kFuzzBase + (memory.end() - kFuzzBase) * data[0] / 255;
  const Mapping mappings[] = {{.begin = kFuzzBase, .end = mapped}};
  const auto budget = std::make_shared<ByteBudget>(100'000);
  const auto table = read_frame_table(memory, mappings, kFuzzBase, budget);
  require(budget->used() <= budget->limit(), "over its budget");
  if (table.ok()) check(*table, memory);
  return 0;
}
