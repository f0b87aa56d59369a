// SPDX-License-Identifier: Apache-2.0
// What looking at hostile files takes of memory, as the kernel counts it, in a process of its own.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <sstream>
#include <string>

#include "daemon/discover/elf_file.h"
#include "daemon/symbolize/symbolizer.h"
#include "tests/kit/sparse_elf.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kMega = 1u << 20;
// A page table, buffers of pieces, the allocator's own.
constexpr std::uint64_t kMaxKilobytes = 16 << 10;

std::uint64_t status_kilobytes(const std::string& field) {
  std::istringstream status(read_file("/proc/self/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoull(line.substr(field.size() + 1));
  }
  return 0;
}

// By how much a process grows that does it, in kilobytes at its peak.
std::uint64_t growth_of(const std::function<void()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) return ~0ull;
  const pid_t child = ::fork();
  if (child == 0) {
    const std::uint64_t before = status_kilobytes("VmRSS");
    work();
    const std::uint64_t grown = status_kilobytes("VmHWM") - before;
    _exit(::write(ends[1], &grown, sizeof grown) == sizeof grown ? 0 : 1);
  }
  ::close(ends[1]);
  std::uint64_t grown = ~0ull;
  if (::read(ends[0], &grown, sizeof grown) != sizeof grown) grown = ~0ull;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? grown : ~0ull;
}

void look_at(const std::string& path) {
  const auto file = ElfFile::open(path, path);
  if (!file.ok()) return;
  (*file)->find_symbol("caml_frametable");
  (*file)->dynamic_symbols([](std::string_view name) { return name.starts_with("caml"); });
  (*file)->function_at(0x1000);
  (*file)->stap_probes();
}

TEST(PeakMemory, OfAnAllocationIsSeen) {
  EXPECT_GT(growth_of([] { std::string(64 * kMega, 'x').clear(); }), 60u << 10);
  EXPECT_LT(growth_of([] {}), kMaxKilobytes);
}

TEST(PeakMemory, OfManySections) {
  TempDir dir;
  for (const std::uint64_t sections : {65'536ull, 4'000'000ull, 80'000'000ull}) {
    SparseElf elf;
    elf.write(dir.path("x.so"), sections);
    EXPECT_LT(growth_of([&] { look_at(dir.path("x.so")); }), kMaxKilobytes) << sections;
  }
}

TEST(PeakMemory, OfTablesOfOneGibibyte) {
  TempDir dir;
  SparseElf elf;
  const std::string names("\0one\0", 5);
  for (const std::uint32_t type : {SHT_SYMTAB, SHT_DYNSYM}) {
    elf.add_symbols(type, {function_symbol(1, 0x1000, 8)}, names, 1024 * kMega / sizeof(Elf64_Sym),
                    1024 * kMega);
  }
  elf.add(".note.stapsdt", SHT_NOTE, elf.put("", 1024 * kMega), 1024 * kMega);
  elf.write(dir.path("x.so"));
  EXPECT_LT(growth_of([&] { look_at(dir.path("x.so")); }), kMaxKilobytes);
}

class BombSymbolizer : public Symbolizer {
 public:
  using Symbolizer::Symbolizer;

 protected:
  std::vector<Location> look_up(std::uint64_t address, std::int32_t) override {
    std::vector<Location> found;
    for (int i = 0; i < 256; ++i) {
      const std::string name = std::to_string(address) + "." + std::to_string(i);
      found.push_back({.function = name + std::string(address % 2 == 0 ? 4000 : 1, 'f'),
                       .file = name + std::string(address % 3 == 0 ? 4000 : 1, '/')});
    }
    return found;
  }
};

TEST(PeakMemory, OfNamesIsWhatWasCharged) {
  constexpr std::uint64_t kLimit = 64 * kMega;
  const std::uint64_t grown = growth_of([&] {
    BombSymbolizer symbolizer(std::make_shared<ByteBudget>(kLimit));
    for (std::uint64_t address = 1; address < 50'000; ++address) symbolizer.frame_id(address, -1);
  });
  EXPECT_GT(grown, kLimit / 4 >> 10);
  EXPECT_LT(grown, (kLimit + kLimit / 8) >> 10);
}

}  // namespace
}  // namespace memprofd
