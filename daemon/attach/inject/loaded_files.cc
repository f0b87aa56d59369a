// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/loaded_files.h"

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

std::optional<std::uint64_t> last_loaded(const MemoryReader& memory, std::uint64_t list) {
  List head{};
  if (!memory.read_value(list, head).ok() || head.first == 0) return std::nullopt;
  std::uint64_t at = head.first;
  for (int files = 0; files < kMaxFiles; ++files) {
    LoadedFile file{};
    if (!memory.read_value(at, file).ok()) return std::nullopt;
    if (file.next == 0) return at;
    at = file.next;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> load_bias_after(const MemoryReader& memory, std::uint64_t entry,
                                             const std::string& name) {
  std::optional<std::uint64_t> bias;
  LoadedFile file{};
  if (!memory.read_value(entry, file).ok()) return std::nullopt;
  for (int files = 0; file.next != 0 && files < kLoadedLast; ++files) {
    if (!memory.read_value(file.next, file).ok()) break;
    if (has_name(memory, file, name)) bias = file.bias;
  }
  return bias;
}

}  // namespace memprofd
