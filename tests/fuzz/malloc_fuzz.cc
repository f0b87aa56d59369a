// SPDX-License-Identifier: Apache-2.0
// Memory of glibc's malloc and of a runtime, as read for the RSS report. Input: OCaml version,
// number of regions of the C library, then the memory, which begins with those.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "daemon/discover/proc_fs.h"
#include "daemon/rss/malloc_walk.h"
#include "daemon/rss/mapping_classes.h"
#include "daemon/rss/ocaml_parts.h"
#include "tests/fuzz/fuzz_memory.h"

namespace memprofd::fuzz {
namespace {

// Cyclic lists end with the read budget (ResidentReader::late()).
constexpr std::uint64_t kMaxReads = 1'000'000;

void check(const ExtentLayer& layer) {
  std::uint64_t end = 0;
  for (const Extent& extent : layer.extents()) {
    require(extent.begin >= end && extent.begin < extent.end, "extents that are not in order");
    end = extent.end;
  }
}

// malloc's chunks lie in the heaps, whatever their sizes claim.
void check_places(const ExtentLayer& chunks, const std::vector<Arena>& arenas,
                  std::vector<AddressSpan> heaps) {
  for (const Arena& arena : arenas) {
    for (const ArenaHeap& heap : arena.heaps) heaps.push_back({heap.begin, heap.end});
  }
  for (const Extent& extent : chunks.extents()) {
    const auto has = [&](std::uint64_t address) {
      return std::ranges::any_of(heaps,
                                 [&](const AddressSpan& heap) { return heap.contains(address); });
    };
    require(has(extent.begin) && has(extent.end - 1), "a chunk that is in no heap");
  }
}

OcamlRuntime runtime_of(std::uint8_t number, std::uint64_t variables) {
  static constexpr const char* kVersions[] = {"4.13.1", "4.14.1", "5.1.0", "5.3.0", "5.5.0"};
  OcamlRuntime runtime{.abi = runtime_abi_for(kVersions[number % std::size(kVersions)]).value()};
  if (runtime.abi.domains) {
    PoolHeap heap{.colours = variables, .orphans = variables + 64};
    heap.slot_words.fill(2);
    runtime.layout = HeapLayout{runtime.abi, heap};
  } else {
    runtime.layout = HeapLayout{runtime.abi, ChunkHeap{variables, variables + 8, variables + 16}};
    runtime.state_pointer = variables + 24;
  }
  return runtime;
}

bool read(std::string_view bytes) {
  Input input(bytes);
  const auto version = input.take<std::uint8_t>();
  const std::size_t of_libc = input.take<std::uint8_t>() % 4;
  const FuzzMemory memory(input, kMaxReads);
  std::vector<AddressSpan> data, heap;
  for (const Mapping& mapping : memory.mappings()) {
    (data.size() < of_libc ? data : heap).push_back({mapping.begin, mapping.end});
  }
  const OcamlRuntime runtime = runtime_of(version, heap.empty() ? 0 : heap[0].begin);
  OcamlParts ocaml(memory, runtime, nullptr);
  const auto arenas = find_arenas(memory, data);
  MallocWalk walk(memory, [&](auto user, auto size) { return ocaml.check_chunk(user, size); }, {});
  for (std::size_t i = 0; i < arenas.size(); ++i) {
    walk.walk_arena(arenas[i], static_cast<std::uint32_t>(i), heap);
  }
  ExtentLayer heaps, tables, channels, lost;
  ocaml.find_heaps(heaps);
  heaps.seal();
  for (const AddressSpan& span : heap) walk.walk_mapped(span, std::span(&span, 1), heaps);
  walk.chunks().seal();
  check_places(walk.chunks(), arenas, heap);
  walk.find_cached(arenas);
  ocaml.find_tables(walk, tables, channels);
  tables.seal();
  channels.seal();
  const std::array<const ExtentLayer*, 2> known{&walk.chunks(), &heaps};
  for (const AddressSpan& span : heap) {
    ocaml.find_unlisted_pools(span, std::span(&span, 1), known);
  }
  ocaml.add_unlisted_pools(memory, lost);
  lost.seal();
  for (const ExtentLayer* layer :
       {&walk.chunks(), &walk.cached(), &heaps, &tables, &channels, &lost}) {
    check(*layer);
  }
  return !arenas.empty() && walk.walked() > 10;
}

// ------------------------------------------------------------ seeds

std::string memory_of(int pid, const AddressSpan& span) {
  std::string bytes(std::min<std::uint64_t>(span.end - span.begin, 256 << 10), '\0');
  std::ifstream memory(ProcFs().path(pid, "mem"), std::ios::binary);
  memory.seekg(static_cast<std::streamoff>(span.begin));
  memory.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  require(memory.good(), "a program's memory cannot be read");
  bytes.resize(bytes.find_last_not_of('\0') + 1);  // pages not touched yet
  return bytes;
}

// malloc's memory of a shell that waits for a line.
std::string real_memory() {
  int in[2], out[2];
  require(::pipe(in) == 0 && ::pipe(out) == 0, "no pipe");
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, in[0], 0);
  ::posix_spawn_file_actions_adddup2(&files, out[1], 1);
  const char* arguments[] = {"sh", "-c", "echo x; read line", nullptr};
  char* environment[] = {nullptr};
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, "/bin/sh", &files, nullptr, const_cast<char**>(arguments), environment);
  ::posix_spawn_file_actions_destroy(&files);
  require(error == 0, "no shell");
  char byte = 0;
  require(::read(out[0], &byte, 1) == 1, "the shell says nothing");
  const auto maps = ProcFs().maps(pid);
  require(maps.ok(), "no mappings of the shell");
  PartNames names;
  const ClassifiedMappings found = classify_mappings(*maps, "", names);
  // The main arena lies at the begin of the C library's data.
  std::string bytes{'\0', '\1'};
  require(!found.libc_data.empty() && !found.break_heap.empty(), "the shell has no malloc");
  for (const AddressSpan& span : {found.libc_data[0], found.break_heap[0]}) {
    put_region(bytes, span.begin, memory_of(pid, span));
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  for (const int end : {in[0], in[1], out[0], out[1]}) ::close(end);
  return bytes;
}

std::vector<std::string> seeds() {
  std::vector<std::string> all{real_memory()};
  for (char version = 1; version < 4; ++version) {
    all.push_back(all[0]);
    all.back()[0] = version;
  }
  return all;
}

const Add added("malloc", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
