// SPDX-License-Identifier: Apache-2.0
// Debug information behind a frame descriptor. Input: the number of the allocation, then the
// memory, which begins with the descriptor.
#include "daemon/symbolize/debuginfo.h"

#include "tests/fuzz/fuzz_target.h"
#include "tests/kit/fake_memory.h"

namespace memprofd::fuzz {
namespace {

constexpr std::uint64_t kBase = 0x10000;

bool read(std::string_view bytes) {
  if (bytes.empty()) return false;
  FakeMemory memory(kBase);
  for (const char byte : bytes.substr(1)) memory.put(byte);
  const int allocation = static_cast<signed char>(bytes[0]);
  const auto info = find_debuginfo(memory, kBase, allocation);
  if (!info) return false;
  bool any = false;
  for (const auto format : {LocationFormat::kLine, LocationFormat::kLines}) {
    const auto locations = read_debuginfo(memory, *info, format);
    require(locations.size() <= 256, "too many inlined functions");
    for (const SourceLocation& one : locations) {
      require(one.function.size() < bytes.size() && one.file.size() < bytes.size(), "from nowhere");
    }
    any |= !locations.empty();
  }
  return any;
}

// A descriptor with two allocations; the location of the second was inlined.
std::string seed(bool has_lines) {
  FakeMemory memory(kBase);
  memory.put(std::uint64_t{0x401000});
  memory.put(std::uint16_t{0x20 | 3});
  memory.put(std::uint16_t{1});
  memory.put(std::uint16_t{8});
  memory.put(std::uint8_t{2});
  memory.put(std::uint8_t{1});
  memory.put(std::uint8_t{1});
  memory.align(4);
  const std::uint64_t offsets = memory.put(std::uint32_t{0});
  memory.put(std::uint32_t{0});
  memory.align(8);
  const std::uint64_t infos = memory.end();
  for (int i = 0; i < 2; ++i) memory.put(std::uint64_t{0});
  const std::uint64_t name = memory.end();
  const std::int32_t to_file = has_lines ? 24 : 16;
  memory.put(to_file);
  if (has_lines) memory.put(std::uint64_t{0x0003'0002'0001'0004});
  memory.put_string("Module.f");
  while (memory.end() < name + static_cast<std::uint64_t>(to_file)) memory.put('\0');
  memory.put_string("src/module.ml");
  for (std::uint64_t i = 0; i < 2; ++i) {
    const std::uint64_t at = infos + 8 * i;
    const std::uint64_t large = has_lines ? std::uint64_t{1} << 63 : 0;
    memory.poke(at, large | std::uint64_t{12 + i} << 44 | (name - at) | (i == 0 ? 1 : 0));
    memory.poke(offsets + 4 * i, static_cast<std::uint32_t>(infos - (offsets + 4 * i)));
  }
  std::string bytes(1, '\1');
  const std::size_t size = memory.end() - kBase;
  bytes.resize(1 + size);
  require(memory.read(kBase, std::as_writable_bytes(std::span(bytes).subspan(1))).ok(), "");
  return bytes;
}

std::vector<std::string> seeds() { return {seed(false), seed(true)}; }

const Add added("debuginfo", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
