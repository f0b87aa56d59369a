// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/loaded_files.h"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace memprofd {
namespace {

// A process with more loaded files than that is not one that tells the truth.
constexpr int kMaxFiles = 1 << 16;

// struct r_debug and struct link_map of <link.h>, as far as they are read.
struct List {
  std::int32_t version;
  std::int32_t padding;
  std::uint64_t first;
};
struct LoadedFile {
  std::uint64_t bias;
  std::uint64_t name;
  std::uint64_t dynamic;
  std::uint64_t next;
};

bool has_name(const MemoryReader& memory, const LoadedFile& file, const std::string& name) {
  std::vector<char> found(name.size() + 1);
  return memory.read(file.name, std::as_writable_bytes(std::span(found))).ok() &&
         std::string_view(found.data(), found.size()) ==
             std::string_view(name.c_str(), name.size() + 1);
}

}  // namespace

std::optional<std::uint64_t> load_bias_of(const MemoryReader& memory, std::uint64_t list,
                                          const std::string& name) {
  List head{};
  if (!memory.read_value(list, head).ok()) return std::nullopt;
  std::array<LoadedFile, kLoadedLast> last{};
  int files = 0;
  for (std::uint64_t at = head.first; at != 0 && files < kMaxFiles; ++files) {
    LoadedFile& file = last[static_cast<std::size_t>(files % kLoadedLast)];
    if (!memory.read_value(at, file).ok()) return std::nullopt;
    at = file.next;
  }
  for (int i = files - 1; i >= 0 && i >= files - kLoadedLast; --i) {
    const LoadedFile& file = last[static_cast<std::size_t>(i % kLoadedLast)];
    if (has_name(memory, file, name)) return file.bias;
  }
  return std::nullopt;
}

}  // namespace memprofd
