// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/malloc_sites.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bpf/malloc_probes.h"
#include "daemon/attach/inject/library_names.h"
#include "daemon/attach/inject/loaded_files.h"
#include "daemon/discover/argument_entry.h"
#include "daemon/util/base_name.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

struct FunctionRow {
  std::string_view name;
  memprof_c_function function;
  WantedArguments wanted;
};

const std::vector<FunctionRow>& functions() {
  static const std::vector<FunctionRow> kRows = {
      {"malloc", MEMPROF_C_CALL_MALLOC, {{kRdi}, true}},
      {"free", MEMPROF_C_CALL_FREE, {{kRdi}, false}},
      {"calloc", MEMPROF_C_CALL_CALLOC, {{kRdi, kRsi}, true}},
      {"realloc", MEMPROF_C_CALL_REALLOC, {{kRdi, kRsi}, true}},
      {"reallocarray", MEMPROF_C_CALL_REALLOCARRAY, {{kRdi, kRsi, kRdx}, true}},
      {"aligned_alloc", MEMPROF_C_CALL_ALIGNED, {{kRsi}, true}},
      {"memalign", MEMPROF_C_CALL_ALIGNED, {{kRsi}, true}},
      {"posix_memalign", MEMPROF_C_CALL_POSIX_MEMALIGN, {{kRdi, kRdx}, true}},
  };
  return kRows;
}

struct Definer {
  MappedFile file;
  std::string path;
  std::uint64_t bias = 0;
  bool is_program = false;
  bool is_libc = false;

  // A higher rank makes it likelier that the program calls these functions; used if the dynamic
  // linker's order is unknown.
  int rank() const { return is_program ? 2 : is_libc ? 0 : 1; }
};

bool exports_malloc(const ElfFile& file) {
  const auto exports = [&](std::string_view wanted) {
    return !file.dynamic_symbols([=](std::string_view name) { return name == wanted; }).empty();
  };
  return exports("malloc") && exports("free");
}

// A statically linked program exports nothing.
bool defines_malloc(const ElfFile& file) {
  return file.find_symbol("malloc").has_value() && file.find_symbol("free").has_value();
}

// Address of the dynamic linker's list of files; 0: unknown.
std::uint64_t list_of_files(const Target& target, const std::vector<Mapping>& maps) {
  for (const Mapping& mapping : maps) {
    if (!mapping.executable || !is_linker(base_name(mapping.path))) continue;
    const auto file = open_mapping(ProcFs(), target.pid, mapping, target.budget);
    if (!file.ok()) continue;
    const auto bias = file->elf->load_bias(mapping.begin, mapping.end, mapping.offset);
    const auto list = file->elf->find_symbol("_r_debug");
    if (bias && list) return *bias + list->address;
  }
  return 0;
}

std::vector<Definer> find_definers(const Target& target, const std::vector<Mapping>& maps) {
  std::vector<Definer> definers;
  std::set<std::pair<std::uint64_t, std::uint64_t>> others;
  const bool is_dynamic = std::ranges::any_of(maps, [](const Mapping& mapping) {
    return is_linker(base_name(mapping.path)) || is_musl(base_name(mapping.path));
  });
  for (const Mapping& mapping : maps) {
    const std::string_view name = base_name(mapping.path);
    if (!mapping.executable || mapping.inode == 0 || is_linker(name) ||
        others.contains({mapping.device, mapping.inode}))
      continue;
    auto file = open_mapping(ProcFs(), target.pid, mapping, target.budget);
    if (!file.ok()) continue;
    const bool is_program = mapping.path == target.exe;
    const auto bias = file->elf->load_bias(mapping.begin, mapping.end, mapping.offset);
    if (bias &&
        (exports_malloc(*file->elf) || (is_program && !is_dynamic && defines_malloc(*file->elf)))) {
      definers.push_back(
          {*std::move(file), mapping.path, *bias, is_program, is_libc(name) || is_musl(name)});
    } else {
      others.emplace(mapping.device, mapping.inode);
    }
  }
  return definers;
}

// The program calls the malloc that the dynamic linker has loaded first. One that was loaded later
// or separately (RTLD_LOCAL, dlmopen) belongs to another file.
std::optional<Definer> first_loaded(std::vector<Definer>& definers,
                                    const std::vector<std::uint64_t>& biases) {
  for (const std::uint64_t bias : biases) {
    const auto found = std::ranges::find(definers, bias, &Definer::bias);
    if (found != definers.end()) return std::move(*found);
  }
  return std::nullopt;
}

absl::StatusOr<Definer> choose(std::vector<Definer> definers,
                               const std::optional<std::vector<std::uint64_t>>& biases) {
  if (definers.empty()) {
    return absl::FailedPreconditionError("no file of the program has a malloc");
  }
  if (biases) {
    if (auto first = first_loaded(definers, *biases)) return *std::move(first);
  }
  std::ranges::stable_sort(definers, std::ranges::greater(), &Definer::rank);
  if (definers.size() > 1 && definers[0].rank() == definers[1].rank()) {
    return absl::FailedPreconditionError(
        absl::StrCat("both ", definers[0].path, " and ", definers[1].path,
                     " define malloc, and which one is used is unknown; load only one of them"));
  }
  return std::move(definers[0]);
}

absl::StatusOr<ArgumentEntry> entry_of(const Definer& definer, const FunctionRow& row,
                                       const ElfSymbol& symbol) {
  const ElfFile& file = *definer.file.elf;
  const ReadProgram read = [&file](std::uint64_t from, std::span<std::byte> out) {
    return file.read(from, out).ok();
  };
  const bool is_bounded = symbol.size > 0 && symbol.size <= kMaxFunctionBytes;
  std::vector<std::byte> code(is_bounded ? symbol.size : 0);
  if (is_bounded && file.read(symbol.address, code).ok()) {
    if (const auto entry = find_argument_entry(code, symbol.address, read, row.wanted))
      return *entry;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cannot decode the code of ", std::string(row.name), " in ", definer.path));
}

// In glibc, calloc calls none of these functions, and reallocarray calls only realloc.
bool is_left_to_others(const Definer& definer, const FunctionRow& row) {
  return definer.is_libc && row.function == MEMPROF_C_CALL_REALLOCARRAY;
}
memprof_c_nests nests_of(const Definer& definer, const FunctionRow& row) {
  if (row.function == MEMPROF_C_CALL_MALLOC)
    return definer.is_libc ? MEMPROF_C_NESTS_NEVER : MEMPROF_C_NESTS_MAYBE;
  return row.function == MEMPROF_C_CALL_CALLOC && is_libc(base_name(definer.path))
             ? MEMPROF_C_NESTS_NEVER
             : MEMPROF_C_NESTS_ALWAYS;
}

absl::Status add_place(const Definer& definer, const FunctionRow& row, const ElfSymbol& symbol,
                       MallocSites& places) {
  ASSIGN_OR_RETURN(const ArgumentEntry entry, entry_of(definer, row, symbol));
  const auto offset = definer.file.elf->offset_of(symbol.address + entry.at);
  if (!offset)
    return absl::FailedPreconditionError(
        absl::StrCat(std::string(row.name), " is not in the file ", definer.path));
  ProbeSites& sites = row.function == MEMPROF_C_CALL_FREE ? places.frees : places.calls;
  if (std::ranges::find(sites.offsets, *offset) != sites.offsets.end()) return absl::OkStatus();
  sites.offsets.push_back(*offset);
  sites.cookies.push_back(
      MEMPROF_C_COOKIE(row.function, entry.is_cheap ? MEMPROF_C_HIT_CHEAP : MEMPROF_C_HIT_COSTLY,
                       nests_of(definer, row)));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MallocSites> find_malloc(const Target& target) {
  ASSIGN_OR_RETURN(const std::vector<Mapping> maps, target.memory->maps());
  ASSIGN_OR_RETURN(const Definer definer,
                   choose(find_definers(target, maps),
                          biases_in_order(*target.memory, list_of_files(target, maps))));
  MallocSites places{.path = definer.path, .calls = {}, .frees = {}};
  places.calls.file = places.frees.file = definer.file.elf->descriptor();
  for (const FunctionRow& row : functions()) {
    const auto symbol = definer.file.elf->find_symbol(row.name);
    if (!symbol || is_left_to_others(definer, row)) continue;
    RETURN_IF_ERROR(add_place(definer, row, *symbol, places));
  }
  return places;
}

}  // namespace memprofd
