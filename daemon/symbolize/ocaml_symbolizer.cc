// SPDX-License-Identifier: Apache-2.0
#include "daemon/symbolize/ocaml_symbolizer.h"

#include <fmt/core.h>

#include "daemon/discover/target.h"
#include "daemon/model/callstack.h"
#include "daemon/symbolize/debuginfo.h"
#include "daemon/symbolize/symbol_names.h"
#include "daemon/util/base_name.h"

namespace memprofd {
OcamlSymbolizer::OcamlSymbolizer(std::unique_ptr<ElfFile> program, std::uint64_t load_bias,
                                 FrameTable frames, LocationFormat format, SharedBudget budget)
    : Symbolizer(std::move(budget)), format_(format) {
  add(std::move(program), load_bias, std::move(frames));
}

void OcamlSymbolizer::add(std::unique_ptr<ElfFile> plugin, std::uint64_t load_bias,
                          FrameTable frames) {
  Code code{.file = std::move(plugin), .load_bias = load_bias};
  code.library = base_name(code.file->display_name());
  code.frames = std::move(frames);
  {
    const MutexLock lock(code_mutex_);
    code_.push_back(std::move(code));
  }
  forget_unknown();
}

std::vector<Location> OcamlSymbolizer::look_up(std::uint64_t return_address,
                                               std::int32_t alloc_idx) {
  const MutexLock lock(code_mutex_);
  if (alloc_idx == kDebuginfoIsInnermost) return look_up_debuginfo(return_address);
  // Searches the latest first: a plugin may be where an unloaded one was.
  for (auto code = code_.rbegin(); code != code_.rend(); ++code) {
    const FrameDescriptor* descriptor = code->frames.find(return_address);
    if (descriptor == nullptr) continue;
    std::vector<Location> found = code->from_descriptor(descriptor->address, alloc_idx, format_);
    if (found.empty()) found.push_back(code->from_symbols(return_address));
    return found;
  }
  return {code_.front().from_symbols(return_address)};
}

// Searches the latest first, as for locations.
std::string OcamlSymbolizer::build_id(std::string_view library) {
  const MutexLock lock(code_mutex_);
  if (library.empty()) return code_.front().file->build_id();
  for (auto code = code_.rbegin(); code != code_.rend(); ++code) {
    if (code->library == library) return code->file->build_id();
  }
  return {};
}

// Returns no location if nothing can be read.
std::vector<Location> OcamlSymbolizer::look_up_debuginfo(std::uint64_t address) {
  for (auto code = code_.rbegin(); code != code_.rend(); ++code) {
    std::vector<Location> found = code->from_debuginfo(address, format_);
    if (!found.empty()) return found;
  }
  return {code_.front().from_symbols(address)};
}

std::vector<Location> OcamlSymbolizer::Code::from_descriptor(std::uint64_t descriptor,
                                                             std::int32_t alloc_idx,
                                                             LocationFormat format) const {
  const auto debuginfo = find_debuginfo(FileMemory(*file, load_bias), descriptor, alloc_idx);
  if (!debuginfo) return {};
  return from_debuginfo(*debuginfo, format);
}

std::vector<Location> OcamlSymbolizer::Code::from_debuginfo(std::uint64_t debuginfo,
                                                            LocationFormat format) const {
  const FileMemory memory(*file, load_bias);
  std::vector<Location> found;
  for (SourceLocation& source : read_debuginfo(memory, debuginfo, format)) {
    found.push_back({.function = std::move(source.function),
                     .file = std::move(source.file),
                     .line = source.line,
                     .start_column = source.start_column,
                     .end_column = source.end_column,
                     .library = library});
  }
  return found;
}

Location OcamlSymbolizer::Code::from_symbols(std::uint64_t return_address) const {
  // Looks up the byte before: a call may be the last instruction of its function.
  const auto function = file->function_at(return_address - 1 - load_bias);
  Location location;
  if (function) {
    location.function = demangle(function->name);
    location.library = library;
  } else {
    location.function = fmt::format("{:#x}", return_address);
  }
  return location;
}

std::shared_ptr<OcamlSymbolizer> symbolizer_of(Target& target) {
  return std::make_shared<OcamlSymbolizer>(
      std::move(target.program), target.load_bias, target.frames,
      target.abi.end_lines ? LocationFormat::kLines : LocationFormat::kLine, target.budget);
}

}  // namespace memprofd
