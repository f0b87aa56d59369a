// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/loaded_files.h"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace memprofd {
namespace {

// A longer list is treated as forged.
constexpr int kMaxFiles = 1 << 16;

// The used parts of struct r_debug and struct link_map of <link.h>.
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

// Returns the entry if it has this name.
std::optional<LoadedAt> inspect(const MemoryReader& memory, const LoadedFile& file,
                                const std::string& name, const AskOfFile& ask) {
  std::vector<char> found(name.size() + 1);
  MemoryQuestion question;
  question.about(file.name, std::as_writable_bytes(std::span(found)));
  ask(file.bias, question);
  const auto read = question.ask_some(memory);
  if (!read.ok() || *read == 0 ||
      std::string_view(found.data(), found.size()) !=
          std::string_view(name.c_str(), name.size() + 1)) {
    return std::nullopt;
  }
  return LoadedAt{file.bias, *read - 1};
}

// Calls take(address, entry) for each entry. Returns whether the list has an end.
template <typename Take>
bool each_file(const MemoryReader& memory, std::uint64_t list, const Take& take) {
  List head{};
  if (!memory.read_value(list, head).ok()) return false;
  std::uint64_t at = head.first;
  for (int files = 0; at != 0 && files < kMaxFiles; ++files) {
    LoadedFile file{};
    if (!memory.read_value(at, file).ok()) return false;
    take(at, file);
    if (file.next == 0) return true;
    at = file.next;
  }
  return false;
}

}  // namespace

std::optional<std::uint64_t> last_loaded(const MemoryReader& memory, std::uint64_t list) {
  std::uint64_t last = 0;
  const bool has_end =
      each_file(memory, list, [&](std::uint64_t at, const LoadedFile&) { last = at; });
  return has_end ? std::optional(last) : std::nullopt;
}

std::optional<std::vector<std::uint64_t>> biases_in_order(const MemoryReader& memory,
                                                          std::uint64_t list) {
  std::vector<std::uint64_t> biases;
  const bool has_end = each_file(
      memory, list, [&](std::uint64_t, const LoadedFile& file) { biases.push_back(file.bias); });
  return has_end ? std::optional(std::move(biases)) : std::nullopt;
}

std::optional<LoadedAt> load_bias_after(const MemoryReader& memory, std::uint64_t entry,
                                        const std::string& name, const AskOfFile& ask) {
  LoadedFile file{};
  if (!memory.read_value(entry, file).ok()) return std::nullopt;
  for (int files = 0; file.next != 0 && files < kLoadedLast; ++files) {
    if (!memory.read_value(file.next, file).ok()) break;
    if (const auto at = inspect(memory, file, name, ask)) return at;
  }
  return std::nullopt;
}

}  // namespace memprofd
