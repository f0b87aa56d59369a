// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/root_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "agent-lib/include/memprof_values_abi.h"
#include "daemon/util/base_name.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

constexpr std::size_t kMaxThreads = 1u << 16;
// Offsets in systhreads' thread structure (otherlibs/systhreads/st_stubs.c). It holds the thread's
// descriptor, whose first field is the thread's number; the next thread of the circle; and the
// saved part of its stack, in OCaml 4 and 5.
constexpr std::uint64_t kThreadNext = 8;
constexpr std::uint64_t kThreadSaved = 32;
constexpr std::uint64_t kThreadFiber = 32;
constexpr std::uint64_t kThreadRegisters = 80;

}  // namespace

RootNames::RootNames(const Target& target, const ElfFile& program, const HeapCopy& copy,
                     const ModuleTables& modules, Symbolizer& symbolizer)
    : target_(target),
      copy_(copy),
      locations_(symbolizer),
      modules_(ModuleBlocks::read(copy.memory(), modules, target.frames, symbolizer)),
      finalisers_(FinaliserTables::read(copy.memory(), target.abi,
                                        find_finalisers(program, target.load_bias), copy.states())),
      stacks_(copy.memory(), target.frames) {
  if (auto maps = target.memory->maps(); maps.ok()) mappings_ = *std::move(maps);
  find_domains();
  for (const RootSection& section : copy.sections()) {
    if (section.kind == MEMPROF_ROOT_THREAD) find_threads(section);
  }
}

void RootNames::find_domains() {
  const MemoryReader& memory = copy_.memory();
  for (const std::uint64_t state : copy_.states()) {
    domains_.emplace_back();
    if (target_.abi.domains) {
      SavedFiber saved;
      std::uint32_t id = 0;
      (void)memory.read_value(state + target_.abi.current_stack, saved.fiber);
      (void)memory.read_value(state + target_.abi.gc_regs, saved.registers);
      (void)memory.read_value(state + target_.abi.domain_id, id);
      stacks_.add(saved);
      domains_.back() = fmt::format("domain {}", id);
    } else {
      std::array<std::uint64_t, 2> rest{};
      SavedStack saved;
      (void)memory.read_value(state + target_.abi.bottom_of_stack, saved.stack);
      (void)memory.read_value(state + target_.abi.last_return_address, rest);
      stacks_.add(SavedStack{saved.stack, rest[0], rest[1]});
    }
    current_threads_.push_back(copy_.states().size() == 1 ? "main thread" : domains_.back());
  }
}

// The hook begins with the running thread, whose structure has the expected first fields.
void RootNames::find_threads(const RootSection& section) {
  if (section.roots.empty() || section.domain >= domains_.size()) return;
  const std::uint64_t first = section.roots[0].slot;
  current_threads_[section.domain] = thread_name(first, section.domain);
  threads_[first] = current_threads_[section.domain];
  std::uint64_t thread = first;
  while (threads_.size() < kMaxThreads &&
         copy_.memory().read_value(thread + kThreadNext, thread).ok() && thread != 0 &&
         !threads_.contains(thread)) {
    threads_[thread] = thread_name(thread, section.domain);
    add_stack_of(thread);
  }
}

void RootNames::add_stack_of(std::uint64_t thread) {
  const MemoryReader& memory = copy_.memory();
  if (target_.abi.domains) {
    SavedFiber saved;
    if (memory.read_value(thread + kThreadFiber, saved.fiber).ok() &&
        memory.read_value(thread + kThreadRegisters, saved.registers).ok()) {
      stacks_.add(saved);
    }
    return;
  }
  std::array<std::uint64_t, 3> saved{};
  if (memory.read_value(thread + kThreadSaved, saved).ok()) {
    stacks_.add(SavedStack{saved[0], saved[1], saved[2]});
  }
}

// Names the thread by its Thread.id.
std::string RootNames::thread_name(std::uint64_t thread, std::uint32_t domain) const {
  const std::string in = domains_.size() == 1 ? "" : domains_[domain] + ", ";
  std::uint64_t descriptor = 0;
  std::uint64_t number = 0;
  if (!copy_.memory().read_value(thread, descriptor).ok() ||
      !copy_.memory().read_value(descriptor, number).ok() || number % 2 == 0) {
    return in + "thread";
  }
  return fmt::format("{}thread {}", in, number >> 1);
}

void RootNames::for_each(
    const std::function<void(std::uint64_t value, const RootName& name)>& use) {
  for (const RootSection& section : copy_.sections()) {
    if (section.domain >= domains_.size()) continue;
    thread_ = current_threads_[section.domain];
    for (const memprof_root& root : section.roots) use(root.value, name_of(section, root));
  }
}

RootName RootNames::name_of(const RootSection& section, const memprof_root& root) {
  switch (section.kind) {
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
      return {.kind = RootKind::kLocalC, .owner = thread_};
    case MEMPROF_ROOT_C_GLOBAL:
      return name_of_c_root(root.slot);
    case MEMPROF_ROOT_FINALISER:
      return {.kind = RootKind::kFinaliser,
              .owner = std::string(finalisers_.kind_of(section.domain, root.slot))};
    case MEMPROF_ROOT_MEMPROF:
      return {.kind = RootKind::kMemprof};
    case MEMPROF_ROOT_KINDS:
      break;
  }
  return {};
}

RootName RootNames::name_of_c_root(std::uint64_t slot) const {
  const auto states = copy_.states();
  for (std::size_t i = 0; target_.abi.domains && i < states.size(); ++i) {
    if (slot != states[i] + target_.abi.local_storage) continue;
    return {.kind = RootKind::kGlobalC, .owner = "local storage of " + domains_[i]};
  }
  std::string name = name_by_the_program(slot);
  if (!name.empty()) return {.kind = RootKind::kMarked, .owner = std::move(name)};
  return {.kind = RootKind::kGlobalC, .owner = file_at(slot)};
}

// Returns the name of the registry's entry with this slot: "orders" or "orders{shop=north}".
std::string RootNames::name_by_the_program(std::uint64_t slot) const {
  const MemoryReader& memory = copy_.memory();
  const std::uint64_t first = target_.registry + offsetof(memprof_values, slots);
  const std::uint64_t number = (slot - first) / sizeof(memprof_slot);
  if (target_.registry == 0 || slot < first || number >= MEMPROF_VALUES_SLOTS) return "";
  memprof_values_head head{};
  memprof_slot written{};
  if (!memory.read_value(target_.registry, head).ok() || head.magic != MEMPROF_VALUES_MAGIC ||
      head.abi != MEMPROF_VALUES_ABI || head.slot_bytes != sizeof(memprof_slot) ||
      !memory.read_value(first + number * sizeof(memprof_slot), written).ok()) {
    return "";
  }
  const std::string name(written.name, strnlen(written.name, sizeof written.name));
  const std::string labels(written.labels, strnlen(written.labels, sizeof written.labels));
  const std::vector<std::string> lines = absl::StrSplit(labels, '\n', absl::SkipEmpty());
  return printable(lines.empty() ? name : absl::StrCat(name, "{", absl::StrJoin(lines, ", "), "}"));
}

// The roots of each thread come after its structure's.
RootName RootNames::name_in_thread(const memprof_root& root) {
  const auto thread = threads_.find(root.slot);
  if (thread != threads_.end()) thread_ = thread->second;
  RootName name{.kind = RootKind::kStack, .owner = thread_};
  if (const std::uint64_t frame = stacks_.frame_of(root.slot)) name.place = locations_.of(frame);
  return name;
}

// The base name of the file that is mapped there.
std::string RootNames::file_at(std::uint64_t address) const {
  const auto mapping = std::upper_bound(
      mappings_.begin(), mappings_.end(), address,
      [](std::uint64_t place, const Mapping& mapping) { return place < mapping.end; });
  if (mapping == mappings_.end() || address < mapping->begin) return "";
  if (mapping->path.empty() || mapping->path[0] != '/') {
    // A program's zeroed data follows the data of its file.
    const bool behind_file = mapping != mappings_.begin() && (mapping - 1)->end == mapping->begin &&
                             !(mapping - 1)->path.empty() && (mapping - 1)->path[0] == '/';
    if (mapping->path != "[heap]" && behind_file) return file_at((mapping - 1)->begin);
    return "memory of C code";
  }
  return std::string(base_name(mapping->path));
}

}  // namespace memprofd
