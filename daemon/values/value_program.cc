// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/value_program.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "daemon/snapshot/types/linked_units.h"
#include "daemon/util/log.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

AddressRange image_of(const ElfFile& program, std::uint64_t load_bias) {
  AddressRange range{~0ull, 0};
  for (const ElfSegment& segment : program.segments()) {
    range.begin = std::min(range.begin, load_bias + segment.address);
    range.end = std::max(range.end, load_bias + segment.address + segment.memory_size);
  }
  return range;
}

}  // namespace

ValueProgram::ValueProgram(const Target& target, std::shared_ptr<Symbolizer> symbolizer)
    : pid_(target.pid),
      memory_(target.memory),
      file_(target.program_file),
      exe_(target.exe),
      abi_(target.abi),
      addresses_{.load_bias = target.load_bias,
                 .caml_state = target.caml_state_address,
                 .counters = target.gc_counters},
      registry_(target.registry),
      budget_(target.budget),
      symbolizer_(std::move(symbolizer)) {}

absl::StatusOr<std::shared_ptr<const ValueProgram::Layout>> ValueProgram::found() {
  const MutexLock lock(mutex_);
  if (found_ == nullptr || !found_->clock.ok()) {
    ASSIGN_OR_RETURN(Layout found, locate());
    found_ = std::make_shared<const Layout>(std::move(found));
  }
  return found_;
}

absl::StatusOr<ValueProgram::Layout> ValueProgram::locate() const {
  ASSIGN_OR_RETURN(const auto program, ElfFile::from_fd(file_, exe_, budget_));
  std::vector<ModuleBlocks::Module> modules;
  auto clock = find_modules(*program, modules);
  return Layout{.clock = std::move(clock),
                .modules = std::move(modules),
                .interfaces = interfaces_of(*program),
                .image = image_of(*program, addresses_.load_bias)};
}

absl::StatusOr<HeapClock> ValueProgram::find_modules(
    const ElfFile& program, std::vector<ModuleBlocks::Module>& modules) const {
  ASSIGN_OR_RETURN(HeapClock clock, HeapClock::find(program, abi_, addresses_));
  const ModuleTables tables = ModuleTables::find(program, addresses_.load_bias);
  if (tables.globals == 0) {
    return absl::FailedPreconditionError(fmt::format(
        "values of pid {} cannot be read: the program has no list of its modules (caml_globals)",
        pid_));
  }
  ASSIGN_OR_RETURN(const auto mappings, memory_->maps());
  ASSIGN_OR_RETURN(const FrameTable frames,
                   read_frame_table(*memory_, mappings, tables.frametable, budget_));
  modules = ModuleBlocks::read(*memory_, tables, frames, *symbolizer_).modules();
  return clock;
}

std::shared_ptr<const FieldNames> ValueProgram::names(const Layout& found,
                                                      const GuardedTypes& types) {
  const MutexLock lock(names_mutex_);
  if (names_ == nullptr) {
    std::vector<GuardedTypes::Unit> units;
    for (const ModuleBlocks::Module& module : found.modules) {
      units.push_back({module.name, module.count});
    }
    GuardedTypes::Names names = types.names({.pid = static_cast<std::uint32_t>(pid_),
                                             .path = exe_,
                                             .ocaml_version = abi_.version,
                                             .interfaces = found.interfaces},
                                            units);
    const bool is_final = names.is_final;
    auto found_names = std::make_shared<const FieldNames>(std::move(names));
    if (!is_final) return found_names;
    names_ = std::move(found_names);
    if (!names_->other_builds().empty()) {
      log_info("pid {}: files of another build are ignored for names and types: {}", pid_,
               absl::StrJoin(names_->other_builds(), ", "));
    }
  }
  return names_;
}

std::string ValueProgram::function_at(std::uint64_t code) const {
  // The symbolizer expects a return address, which follows its call.
  const auto found = symbolizer_->locations(code + 1, -1);
  return found.empty() ? "" : found.front().function;
}

}  // namespace memprofd
