// SPDX-License-Identifier: Apache-2.0
#include "daemon/symbolize/function_names.h"

#include <algorithm>
#include <string_view>

#include "daemon/symbolize/ocaml_symbolizer.h"
#include "daemon/symbolize/symbol_names.h"

namespace memprofd {
namespace {

constexpr int kMaxTriedDescriptors = 8;  // maximum number of descriptors that are tried for a
                                         // function's name

}  // namespace

std::string FunctionNames::of(const ElfFunction& function) const {
  std::string name = demangle(function.name);
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos) return name;  // the top level of a module
  const std::string_view module = std::string_view(name).substr(0, dot + 1);
  const FileMemory memory(file_, load_bias_);
  const std::uint64_t begin = load_bias_ + function.address, end = begin + function.size;
  const std::vector<FrameDescriptor>& all = frames_.descriptors();
  // If a call is the last instruction, it returns to the end of the function.
  auto at = std::ranges::upper_bound(all, begin, {}, &FrameDescriptor::return_address);
  for (int i = 0; i < kMaxTriedDescriptors && at != all.end() && at->return_address <= end;
       ++i, ++at) {
    const auto debuginfo = find_debuginfo(memory, at->address, -1);
    if (!debuginfo) continue;
    // Takes the outermost one, into which the others were inlined.
    const std::vector<SourceLocation> found = read_debuginfo(memory, *debuginfo, format_);
    if (!found.empty() && found.back().function.starts_with(module)) return found.back().function;
  }
  return name;
}

}  // namespace memprofd
