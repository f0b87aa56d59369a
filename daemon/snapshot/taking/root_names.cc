// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/taking/root_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace memprofd {
namespace {

constexpr std::size_t kMostThreads = 1u << 16;
// systhreads' structure of a thread in OCaml 4 (otherlibs/systhreads/st_stubs.c): the thread's
// descriptor, whose first field is its number; the next of the circle; what was saved of its stack.
constexpr std::uint64_t kThreadNext = 8;
constexpr std::uint64_t kThreadSaved = 32;

}  // namespace

RootNames::RootNames(const Target& target, const HeapCopy& copy, const ModuleTables& modules,
                     Symbolizer& symbolizer)
    : target_(target),
      copy_(copy),
      symbolizer_(symbolizer),
      modules_(ModuleBlocks::read(copy.memory(), modules, target.frames, symbolizer)),
      stacks_(copy.memory(), target.frames) {
  if (auto maps = target.memory->maps(); maps.ok()) mappings_ = *std::move(maps);
  SavedStack saved;
  const std::uint64_t state = target.caml_state_address;
  (void)copy.memory().read_value(state + target.abi.bottom_of_stack, saved.stack);
  (void)copy.memory().read_value(state + target.abi.last_return_address, saved.return_address);
  (void)copy.memory().read_value(state + target.abi.last_return_address + 8, saved.registers);
  stacks_.add(saved);
  find_threads();
}

// The hook begins with the thread that runs, and with what its structure begins with.
void RootNames::find_threads() {
  const auto roots = copy_.roots_of_kind(MEMPROF_ROOT_THREAD);
  if (roots.empty()) return;
  const std::uint64_t first = roots[0].slot;
  current_thread_ = thread_name(first);
  threads_[first] = current_thread_;
  std::uint64_t thread = first;
  while (threads_.size() < kMostThreads &&
         copy_.memory().read_value(thread + kThreadNext, thread).ok() && thread != 0 &&
         !threads_.contains(thread)) {
    threads_[thread] = thread_name(thread);
    std::array<std::uint64_t, 3> saved{};
    if (!copy_.memory().read_value(thread + kThreadSaved, saved).ok()) return;
    stacks_.add({saved[0], saved[1], saved[2]});
  }
}

// By Thread.id.
std::string RootNames::thread_name(std::uint64_t thread) const {
  std::uint64_t descriptor = 0;
  std::uint64_t number = 0;
  if (!copy_.memory().read_value(thread, descriptor).ok() ||
      !copy_.memory().read_value(descriptor, number).ok() || number % 2 == 0) {
    return "thread";
  }
  return fmt::format("thread {}", number >> 1);
}

void RootNames::for_each(
    const std::function<void(std::uint64_t value, const RootName& name)>& use) {
  for (int i = 0; i < MEMPROF_ROOT_KINDS; ++i) {
    const auto kind = static_cast<memprof_root_kind>(i);
    thread_ = current_thread_;
    for (const memprof_root& root : copy_.roots_of_kind(kind)) use(root.value, name_of(kind, root));
  }
}

RootName RootNames::name_of(memprof_root_kind kind, const memprof_root& root) {
  switch (kind) {
    case MEMPROF_ROOT_MODULE:
      if (const auto place = modules_.find(root.slot)) {
        return {.kind = RootKind::kGlobal,
                .owner = place->module,
                .field = place->field.value_or(RootName::kNoField)};
      }
      return {.kind = RootKind::kDynamicGlobal, .owner = file_at(root.slot)};
    case MEMPROF_ROOT_STACK:
    case MEMPROF_ROOT_THREAD:
      return name_in_thread(root);
    case MEMPROF_ROOT_LOCAL:
      return {.kind = RootKind::kLocalC, .owner = current_thread_};
    case MEMPROF_ROOT_C_GLOBAL:
      return {.kind = RootKind::kGlobalC, .owner = file_at(root.slot)};
    case MEMPROF_ROOT_FINALISER:
      return {.kind = RootKind::kFinaliser};
    case MEMPROF_ROOT_MEMPROF:
      return {.kind = RootKind::kMemprof};
    case MEMPROF_ROOT_KINDS:
      break;
  }
  return {};
}

// The roots of each thread come after its structure's.
RootName RootNames::name_in_thread(const memprof_root& root) {
  const auto thread = threads_.find(root.slot);
  if (thread != threads_.end()) thread_ = thread->second;
  RootName name{.kind = RootKind::kStack, .owner = thread_};
  if (const std::uint64_t frame = stacks_.frame_of(root.slot)) name.place = location(frame);
  return name;
}

const Location& RootNames::location(std::uint64_t return_address) {
  const auto [at, added] = locations_.try_emplace(return_address);
  if (!added) return at->second;
  const std::vector<Location> found = symbolizer_.locations(return_address, -1);
  if (!found.empty()) at->second = found.front();
  return at->second;
}

// The base name of what is mapped there.
std::string RootNames::file_at(std::uint64_t address) const {
  const auto mapping = std::upper_bound(
      mappings_.begin(), mappings_.end(), address,
      [](std::uint64_t place, const Mapping& mapping) { return place < mapping.end; });
  if (mapping == mappings_.end() || address < mapping->begin) return "";
  if (mapping->path.empty() || mapping->path[0] != '/') {
    // A program's zeroed data lies behind its file's.
    const bool behind_file = mapping != mappings_.begin() && (mapping - 1)->end == mapping->begin &&
                             !(mapping - 1)->path.empty() && (mapping - 1)->path[0] == '/';
    if (mapping->path != "[heap]" && behind_file) return file_at((mapping - 1)->begin);
    return "memory of C code";
  }
  return mapping->path.substr(mapping->path.find_last_of('/') + 1);
}

}  // namespace memprofd
