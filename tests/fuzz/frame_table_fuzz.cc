// SPDX-License-Identifier: Apache-2.0
// Frame tables in a program's memory, which begins with caml_frametable, and the kernel's form of
// them. The first byte of the input selects the mapped size.
#include "daemon/discover/frame_table.h"

#include "tests/fuzz/fuzz_target.h"
#include "tests/kit/fake_memory.h"

namespace memprofd::fuzz {
namespace {

constexpr std::uint64_t kBase = 0x10000;

void check(const FrameTable& table, const FakeMemory& memory) {
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

bool read(std::string_view bytes) {
  if (bytes.empty()) return false;
  FakeMemory memory(kBase);
  for (const char byte : bytes.substr(1)) memory.put(byte);
  const std::uint64_t part = static_cast<unsigned char>(bytes[0]);
  const Mapping mappings[] = {{.begin = kBase, .end = kBase + (memory.end() - kBase) * part / 255}};
  const auto budget = std::make_shared<ByteBudget>(100'000);
  const auto table = read_frame_table(memory, mappings, kBase, budget);
  require(budget->used() <= budget->limit(), "over its budget");
  if (!table.ok()) return false;
  check(*table, memory);
  return !table->descriptors().empty();
}

// Pointers to two tables, and the tables: descriptors with live values, allocations and debuginfo.
std::string two_tables() {
  std::string tables, list(1, '\xff');
  const std::uint64_t begin = kBase + 3 * sizeof(std::uint64_t);
  for (std::uint64_t table = 0; table < 2; ++table) {
    put(list, begin + tables.size());
    put(tables, std::uint64_t{20});
    for (std::uint64_t i = 0; i < 20; ++i) {
      put(tables, 0x400000 + 64 * i + table);
      put(tables, static_cast<std::uint16_t>(0x20 + i % 4));
      put(tables, static_cast<std::uint16_t>(i % 3));
      for (std::uint64_t live = 0; live < i % 3; ++live) put(tables, std::uint16_t{8});
      if ((i & 2) != 0) tables += std::string("\2\1\1", 3);
      while ((i & 1) != 0 && tables.size() % 4 != 0) tables += '\0';
      for (int debug = (i & 1) == 0 ? 0 : (i & 2) != 0 ? 2 : 1; debug > 0; --debug) {
        put(tables, 0x100u);
      }
      while (tables.size() % 8 != 0) tables += '\0';
    }
  }
  put(list, std::uint64_t{0});
  return list + tables;
}

std::vector<std::string> seeds() { return {two_tables()}; }

const Add added("frame_table", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
