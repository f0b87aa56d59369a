// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/libc_functions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/library_names.h"
#include "daemon/discover/agent_finder.h"
#include "daemon/discover/elf_file.h"
#include "daemon/util/base_name.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Executable segments of a C library are 1-2 MB.
constexpr std::uint64_t kMaxTextBytes = 16 << 20;

// mov $15, %rax (or %eax); syscall
constexpr std::array<std::uint8_t, 9> kRestorer64 = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
constexpr std::array<std::uint8_t, 7> kRestorer32 = {0xb8, 15, 0, 0, 0, 0x0f, 0x05};

template <std::size_t N>
std::uint64_t find_code(const std::vector<std::uint8_t>& text, std::uint64_t address,
                        const std::array<std::uint8_t, N>& code) {
  const auto at = std::search(text.begin(), text.end(), code.begin(), code.end());
  return at == text.end() ? 0 : address + static_cast<std::uint64_t>(at - text.begin());
}

std::uint64_t find_restorer(const ElfFile& libc) {
  for (const ElfSegment& segment : libc.segments()) {
    if (!segment.executable || segment.file_size > kMaxTextBytes) continue;
    std::vector<std::uint8_t> text(segment.file_size);
    if (!libc.read(segment.address, std::as_writable_bytes(std::span(text))).ok()) continue;
    if (auto at = find_code(text, segment.address, kRestorer64)) return at;
    if (auto at = find_code(text, segment.address, kRestorer32)) return at;
  }
  return 0;
}

// __errno_location adds a distance to the thread pointer that is relocated into a word: [endbr64]
// mov word(%rip), %rax  add %fs:0, %rax  ret. Returns the word's address in the file; 0 if the code
// is different.
std::uint64_t find_errno_slot(const ElfFile& libc) {
  const auto symbol = libc.find_symbol("__errno_location");
  std::array<std::uint8_t, 24> code{};
  if (!symbol || !libc.read(symbol->address, std::as_writable_bytes(std::span(code))).ok())
    return 0;
  constexpr std::array<std::uint8_t, 4> kEndbr64 = {0xf3, 0x0f, 0x1e, 0xfa};
  constexpr std::array<std::uint8_t, 3> kLoad = {0x48, 0x8b, 0x05};
  constexpr std::array<std::uint8_t, 10> kAdd = {0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0, 0xc3};
  const std::size_t at = std::equal(kEndbr64.begin(), kEndbr64.end(), code.begin()) ? 4 : 0;
  if (!std::equal(kLoad.begin(), kLoad.end(), code.begin() + at) ||
      !std::equal(kAdd.begin(), kAdd.end(), code.begin() + at + 7))
    return 0;
  std::int32_t distance = 0;
  std::memcpy(&distance, code.data() + at + 3, sizeof distance);
  return symbol->address + at + 7 + static_cast<std::uint64_t>(std::int64_t{distance});
}

struct Loaded {
  std::unique_ptr<ElfFile> file;
  std::uint64_t bias = 0;
};

absl::StatusOr<Loaded> open_mapped(int pid, const Mapping& mapping) {
  ASSIGN_OR_RETURN(MappedFile file, open_mapping(ProcFs(), pid, mapping));
  const auto bias = file.elf->load_bias(mapping.begin, mapping.end, mapping.offset);
  if (!bias) return absl::DataLossError(absl::StrCat(mapping.path, ": not where it is mapped"));
  return Loaded{std::move(file.elf), *bias};
}

std::uint64_t address_of(const Loaded& loaded, std::string_view name) {
  const auto symbol = loaded.file->find_symbol(name);
  return symbol ? loaded.bias + symbol->address : 0;
}

void take_libc(const Loaded& loaded, const Mapping& mapping, LibcFunctions& functions) {
  functions.raise = address_of(loaded, "raise");
  functions.syscall = address_of(loaded, "syscall");
  functions.text_begin = mapping.begin;
  functions.text_end = mapping.end;
  if (auto at = find_restorer(*loaded.file)) functions.restorer = loaded.bias + at;
  if (auto at = find_errno_slot(*loaded.file)) functions.errno_slot = loaded.bias + at;
  if (functions.dlopen == 0) functions.dlopen = address_of(loaded, "__libc_dlopen_mode");
}

}  // namespace

absl::StatusOr<LibcFunctions> find_libc_functions(int pid, const std::vector<Mapping>& maps) {
  LibcFunctions functions;
  for (const Mapping& mapping : maps) {
    if (!mapping.executable) continue;
    const std::string_view name = base_name(mapping.path);
    if (!is_libc(name) && !is_libdl(name) && !is_linker(name)) continue;
    ASSIGN_OR_RETURN(const Loaded loaded, open_mapped(pid, mapping));
    if (is_linker(name)) {
      functions.loaded_list = address_of(loaded, "_r_debug");
      continue;
    }
    if (functions.dlopen == 0) functions.dlopen = address_of(loaded, "dlopen");
    if (is_libc(name)) take_libc(loaded, mapping, functions);
  }
  if (functions.dlopen != 0 && functions.raise != 0 && functions.syscall != 0 &&
      functions.restorer != 0) {
    return functions;
  }
  const bool musl = std::any_of(maps.begin(), maps.end(), [](const Mapping& mapping) {
    return is_musl(base_name(mapping.path));
  });
  return absl::FailedPreconditionError(absl::StrCat(
      "pid ", pid, musl ? " runs on the musl C library" : " has no shared GNU C library",
      ", so the agent cannot be loaded into it; link the program with the memprof-agent package "
      "instead"));
}

}  // namespace memprofd
