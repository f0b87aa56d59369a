#include "daemon/symbolize/ocaml_symbolizer.h"

#include <fmt/core.h>

#include <algorithm>

#include "daemon/symbolize/debuginfo.h"
#include "daemon/symbolize/symbol_names.h"

namespace memprofd {
namespace {

std::string base_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);  // npos + 1 is 0
}

}  // namespace

OcamlSymbolizer::OcamlSymbolizer(std::unique_ptr<ElfFile> program, std::uint64_t load_bias,
                                 const FrameTable& frames, LocationFormat format)
    : program_(std::move(program)),
      load_bias_(load_bias),
      module_(base_name(program_->display_name())),
      format_(format) {
  descriptors_.reserve(frames.descriptors().size());
  for (const FrameDescriptor& descriptor : frames.descriptors()) {
    descriptors_.emplace_back(descriptor.return_address, descriptor.address);
  }
}

std::uint64_t OcamlSymbolizer::descriptor_of(std::uint64_t return_address) const {
  const auto it = std::lower_bound(
      descriptors_.begin(), descriptors_.end(), return_address,
      [](const auto& entry, std::uint64_t address) { return entry.first < address; });
  return it != descriptors_.end() && it->first == return_address ? it->second : 0;
}

std::vector<Location> OcamlSymbolizer::look_up(std::uint64_t return_address,
                                               std::int32_t alloc_idx) {
  std::vector<Location> found;
  const FileMemory memory(*program_, load_bias_);
  const std::uint64_t descriptor = descriptor_of(return_address);
  const auto debuginfo =
      descriptor != 0 ? find_debuginfo(memory, descriptor, alloc_idx) : std::nullopt;
  if (debuginfo) {
    for (SourceLocation& source : read_debuginfo(memory, *debuginfo, format_)) {
      found.push_back({.function = std::move(source.function),
                       .file = std::move(source.file),
                       .line = source.line,
                       .start_column = source.start_column,
                       .end_column = source.end_column,
                       .module = module_});
    }
  }
  if (found.empty()) found.push_back(from_symbols(return_address));
  return found;
}

Location OcamlSymbolizer::from_symbols(std::uint64_t return_address) {
  // One byte back: a call may be the last instruction of its function.
  const ElfFunction* function = program_->function_at(return_address - 1 - load_bias_);
  Location location;
  if (function != nullptr) {
    location.function = demangle(function->name);
    location.module = module_;
  } else {
    location.function = fmt::format("{:#x}", return_address);
  }
  return location;
}

}  // namespace memprofd
